-- Checkpoints and kernels that may not be promoted again under a contract (pipeline.md, section 4, `block`).
CREATE TABLE blocks(
  id TEXT PRIMARY KEY,
  checkpoint TEXT NOT NULL,
  kernel TEXT NOT NULL,
  contract TEXT NOT NULL REFERENCES contracts(digest),
  promotion TEXT NOT NULL,
  reason TEXT NOT NULL,
  set_by TEXT NOT NULL,
  set_us INTEGER NOT NULL,
  lifted_us INTEGER,
  lifted_by TEXT NOT NULL,
  lift_reason TEXT NOT NULL,
  evidence_seq INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX blocks_in_force ON blocks(checkpoint, kernel, contract) WHERE lifted_us IS NULL;
