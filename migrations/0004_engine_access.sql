-- What the engine at a base URL asks for beside its address: the file of its key and the CAs to trust, by their paths
-- (docs/engines.md). The newest registration of the URL decides; an engine that asks for nothing has no row.
CREATE TABLE engine_access(
  base_url TEXT PRIMARY KEY NOT NULL,
  key_file TEXT NOT NULL,
  key_header TEXT NOT NULL,
  ca_file TEXT NOT NULL,
  ca_digest TEXT NOT NULL,
  evidence_seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
