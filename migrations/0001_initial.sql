-- Times are µs since the epoch; digests are 'sha256:…'; 64-bit unsigned values are stored as the same bits.

-- Evidence (evidence.md, section 1). The bytes of an entry are what is hashed; the other columns repeat parts
-- of it for queries. Only appending is possible: INSERT OR REPLACE, UPDATE and DELETE fail.
CREATE TABLE entries(
  seq INTEGER PRIMARY KEY CHECK(seq >= 0),
  time_us INTEGER NOT NULL,
  kind TEXT NOT NULL,
  actor TEXT NOT NULL,
  model TEXT,
  promotion TEXT,
  stage TEXT,
  checkpoint TEXT,
  contract TEXT,
  clause TEXT,
  verdict TEXT,
  bytes BLOB NOT NULL CHECK(length(bytes) BETWEEN 1 AND 65535)
) STRICT;
CREATE INDEX entries_by_promotion ON entries(promotion) WHERE promotion IS NOT NULL;
CREATE INDEX entries_by_model ON entries(model) WHERE model IS NOT NULL;
CREATE INDEX entries_by_checkpoint ON entries(checkpoint) WHERE checkpoint IS NOT NULL;
CREATE INDEX entries_by_kind ON entries(kind);
CREATE INDEX entries_by_time ON entries(time_us);
CREATE TRIGGER entries_append BEFORE INSERT ON entries
  WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), -1) + 1 FROM entries)
  BEGIN SELECT RAISE(ABORT, 'the log is append-only: seq must be max + 1'); END;
CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries
  BEGIN SELECT RAISE(ABORT, 'the log is append-only: no UPDATE'); END;
CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries
  BEGIN SELECT RAISE(ABORT, 'the log is append-only: no DELETE'); END;

-- Nodes of the Merkle tree in the order in which they complete.
CREATE TABLE tree_nodes(
  position INTEGER PRIMARY KEY CHECK(position >= 0),
  hash BLOB NOT NULL CHECK(length(hash) = 32)
) STRICT;
CREATE TRIGGER tree_nodes_append BEFORE INSERT ON tree_nodes
  WHEN NEW.position IS NOT (SELECT coalesce(max(position), -1) + 1 FROM tree_nodes)
  BEGIN SELECT RAISE(ABORT, 'the tree is append-only: position must be max + 1'); END;
CREATE TRIGGER tree_nodes_no_update BEFORE UPDATE ON tree_nodes
  BEGIN SELECT RAISE(ABORT, 'the tree is append-only: no UPDATE'); END;
CREATE TRIGGER tree_nodes_no_delete BEFORE DELETE ON tree_nodes
  BEGIN SELECT RAISE(ABORT, 'the tree is append-only: no DELETE'); END;

CREATE TABLE blobs(
  digest TEXT PRIMARY KEY,
  media_type TEXT NOT NULL,
  bytes BLOB NOT NULL,
  created_us INTEGER NOT NULL
) STRICT;

-- What is registered.
CREATE TABLE contracts(
  ordinal INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  canonical BLOB NOT NULL,
  registrant TEXT NOT NULL,
  registered_us INTEGER NOT NULL,
  evidence_seq INTEGER NOT NULL
) STRICT;
CREATE INDEX contracts_by_name ON contracts(name);

CREATE TABLE kernels(
  ordinal INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  digest TEXT NOT NULL,
  canonical BLOB NOT NULL,
  registrant TEXT NOT NULL,
  registered_us INTEGER NOT NULL,
  evidence_seq INTEGER NOT NULL
) STRICT;

CREATE TABLE engines(
  ordinal INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  base_url TEXT NOT NULL,
  kernel TEXT NOT NULL REFERENCES kernels(name),
  checkpoint TEXT NOT NULL,
  checkpoint_uri TEXT NOT NULL,
  abilities TEXT NOT NULL,
  probed_us INTEGER NOT NULL,
  registered_us INTEGER NOT NULL,
  evidence_seq INTEGER NOT NULL
) STRICT;

CREATE TABLE versions(
  ordinal INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  checkpoint TEXT NOT NULL,
  kernel TEXT NOT NULL REFERENCES kernels(name),
  engine TEXT NOT NULL REFERENCES engines(name),
  base_url TEXT NOT NULL,
  created_us INTEGER NOT NULL,
  UNIQUE(checkpoint, kernel, engine, base_url)
) STRICT;

CREATE TABLE models(
  ordinal INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  incumbent TEXT NOT NULL REFERENCES versions(id),
  epoch INTEGER NOT NULL,
  lock_owner TEXT NOT NULL,
  hold TEXT,
  held_by TEXT NOT NULL,
  hold_promotion TEXT NOT NULL,
  hold_us INTEGER NOT NULL,
  created_us INTEGER NOT NULL,
  updated_us INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  evidence_seq INTEGER NOT NULL
) STRICT;

-- Promotions (pipeline.md, section 3).
CREATE TABLE promotions(
  id TEXT PRIMARY KEY,
  model TEXT NOT NULL REFERENCES models(name),
  engine TEXT NOT NULL REFERENCES engines(name),
  candidate TEXT NOT NULL REFERENCES versions(id),
  contract TEXT NOT NULL REFERENCES contracts(digest),
  state TEXT NOT NULL CHECK(state IN ('queued', 'running', 'paused', 'awaiting_approval', 'inconclusive',
    'rolling_back', 'finalizing', 'succeeded', 'rejected', 'errored', 'aborted', 'expired', 'superseded')),
  stage TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  traffic TEXT NOT NULL CHECK(traffic IN ('never_exposed', 'reverted', 'live')),
  baseline TEXT NOT NULL,
  seed INTEGER NOT NULL,
  request TEXT NOT NULL,
  requester TEXT NOT NULL,
  created_us INTEGER NOT NULL,
  updated_us INTEGER NOT NULL,
  deadline_us INTEGER,
  resume_state TEXT,
  ended_us INTEGER,
  outcome TEXT NOT NULL,
  reason TEXT NOT NULL,
  revision INTEGER NOT NULL,
  evidence_seq INTEGER NOT NULL
) STRICT;
CREATE INDEX promotions_by_model ON promotions(model, id);
CREATE UNIQUE INDEX promotions_one_holds_model ON promotions(model) WHERE state IN ('running', 'paused',
  'awaiting_approval', 'inconclusive', 'rolling_back', 'finalizing');
CREATE INDEX promotions_open ON promotions(id) WHERE state IN ('queued', 'running', 'paused', 'awaiting_approval',
  'inconclusive', 'rolling_back', 'finalizing');

CREATE TABLE stage_runs(
  promotion TEXT NOT NULL REFERENCES promotions(id),
  stage TEXT NOT NULL,
  attempt INTEGER NOT NULL CHECK(attempt >= 1),
  state TEXT NOT NULL CHECK(state IN ('running', 'pass', 'violated', 'inconclusive', 'error', 'stopped')),
  started_us INTEGER NOT NULL,
  planned_end_us INTEGER,
  ended_us INTEGER,
  watermark INTEGER NOT NULL,
  step INTEGER NOT NULL,
  step_started_us INTEGER NOT NULL,
  progress TEXT NOT NULL,
  report TEXT NOT NULL,
  PRIMARY KEY(promotion, stage, attempt)
) STRICT;

CREATE TABLE jobs(
  id TEXT PRIMARY KEY,
  promotion TEXT NOT NULL,
  stage TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  dir TEXT NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('pending', 'running', 'done', 'failed', 'cancelled')),
  remote TEXT NOT NULL,
  spec_digest TEXT NOT NULL,
  result TEXT NOT NULL,
  created_us INTEGER NOT NULL,
  ended_us INTEGER,
  UNIQUE(promotion, stage, attempt, name),
  FOREIGN KEY(promotion, stage, attempt) REFERENCES stage_runs(promotion, stage, attempt)
) STRICT;
CREATE INDEX jobs_open ON jobs(id) WHERE state IN ('pending', 'running');

CREATE TABLE verdicts(
  promotion TEXT NOT NULL,
  stage TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  clause TEXT NOT NULL,
  slice TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK(verdict IN ('pass', 'violated', 'inconclusive', 'error')),
  detail TEXT NOT NULL,
  evidence_seq INTEGER NOT NULL,
  decided_us INTEGER NOT NULL,
  PRIMARY KEY(promotion, stage, attempt, clause, slice),
  FOREIGN KEY(promotion, stage, attempt) REFERENCES stage_runs(promotion, stage, attempt)
) STRICT;

CREATE TABLE approvals(
  id TEXT PRIMARY KEY,
  promotion TEXT NOT NULL,
  stage TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  step INTEGER NOT NULL,
  who TEXT NOT NULL,
  evidence_digest TEXT NOT NULL,
  decision TEXT NOT NULL CHECK(decision IN ('approve', 'reject', 'waive')),
  reason TEXT NOT NULL,
  given_us INTEGER NOT NULL,
  UNIQUE(promotion, stage, attempt, step, who, evidence_digest),
  FOREIGN KEY(promotion, stage, attempt) REFERENCES stage_runs(promotion, stage, attempt)
) STRICT;

CREATE TABLE stream_states(
  promotion TEXT NOT NULL,
  stage TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  clause TEXT NOT NULL,
  slice TEXT NOT NULL,
  watermark INTEGER NOT NULL,
  state BLOB NOT NULL,
  PRIMARY KEY(promotion, stage, attempt, clause, slice),
  FOREIGN KEY(promotion, stage, attempt) REFERENCES stage_runs(promotion, stage, attempt)
) STRICT;

CREATE TABLE spending(
  checkpoint TEXT NOT NULL,
  kernel TEXT NOT NULL,
  contract TEXT NOT NULL,
  stage TEXT NOT NULL,
  k INTEGER NOT NULL CHECK(k >= 1),
  inputs_digest TEXT NOT NULL,
  run_promotion TEXT NOT NULL,
  run_stage TEXT NOT NULL,
  run_attempt INTEGER NOT NULL,
  spent_us INTEGER NOT NULL,
  PRIMARY KEY(checkpoint, kernel, contract, stage, k),
  UNIQUE(checkpoint, kernel, contract, stage, inputs_digest)
) STRICT;
CREATE INDEX spending_by_inputs ON spending(inputs_digest);

-- Routes and telemetry.
CREATE TABLE desired_routes(
  model TEXT PRIMARY KEY REFERENCES models(name),
  epoch INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  route TEXT NOT NULL,
  time_us INTEGER NOT NULL
) STRICT;
CREATE TABLE applied_routes(
  model TEXT PRIMARY KEY REFERENCES models(name),
  epoch INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  route TEXT NOT NULL,
  time_us INTEGER NOT NULL
) STRICT;
CREATE TABLE router_windows(
  router_id TEXT PRIMARY KEY,
  number INTEGER NOT NULL,
  consumed_us INTEGER NOT NULL
) STRICT;

-- Access.
CREATE TABLE tokens(
  id TEXT PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE CHECK(length(hash) = 32),
  name TEXT NOT NULL,
  scopes TEXT NOT NULL,
  granted_by TEXT NOT NULL,
  created_us INTEGER NOT NULL,
  expires_us INTEGER,
  revoked_us INTEGER
) STRICT;

CREATE TABLE idempotency(
  principal TEXT NOT NULL,
  key TEXT NOT NULL,
  request_digest TEXT NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('in_flight', 'done')),
  status INTEGER NOT NULL,
  headers TEXT NOT NULL,
  body BLOB NOT NULL,
  created_us INTEGER NOT NULL,
  PRIMARY KEY(principal, key)
) STRICT;
CREATE INDEX idempotency_by_age ON idempotency(created_us);
