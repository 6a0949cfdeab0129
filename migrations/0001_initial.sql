-- Times are µs since the epoch; digests are 'sha256:…'; 64-bit unsigned values are stored as the same bits.

-- Evidence (docs/design/evidence.md). The bytes of an entry are what is hashed; the other columns repeat parts
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
CREATE TRIGGER entries_append BEFORE INSERT ON entries
  WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), -1) + 1 FROM entries)
  BEGIN SELECT RAISE(ABORT, 'the log is append-only: seq must be max + 1'); END;
CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries
  BEGIN SELECT RAISE(ABORT, 'the log is append-only: no UPDATE'); END;
CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries
  BEGIN SELECT RAISE(ABORT, 'the log is append-only: no DELETE'); END;

-- Nodes of the Merkle tree over 64 entries and more, in the order in which they complete. Those below follow from
-- their entries whenever they are needed, which is cheaper than two rows for each entry.
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

-- The signed head of the log, stored in the transaction of the entries that it covers: an entry beyond it was
-- appended by somebody without the log's key. One row; an empty note: no head was signed yet.
CREATE TABLE log_head(
  id INTEGER PRIMARY KEY CHECK(id = 0),
  size INTEGER NOT NULL CHECK(size >= 0),
  note TEXT NOT NULL
) STRICT;
INSERT INTO log_head(id, size, note) VALUES(0, 0, '');
CREATE TRIGGER log_head_grows BEFORE UPDATE ON log_head
  WHEN NEW.size < OLD.size OR NEW.note = ''
  BEGIN SELECT RAISE(ABORT, 'the signed head of the log only grows'); END;
CREATE TRIGGER log_head_no_delete BEFORE DELETE ON log_head
  BEGIN SELECT RAISE(ABORT, 'the log keeps its signed head: no DELETE'); END;

-- The index of the evidence log, derived from it: for each block of 1,024 entries and each value that they are
-- found by, one row with the places of the entries that have it. An index by entry would be written to at random
-- places by each append.
CREATE TABLE index_keys(
  id INTEGER PRIMARY KEY,
  field INTEGER NOT NULL,
  value TEXT NOT NULL,
  UNIQUE(field, value)
) STRICT;
CREATE TABLE postings(
  key INTEGER NOT NULL,
  block INTEGER NOT NULL,
  places BLOB NOT NULL CHECK(length(places) BETWEEN 2 AND 128),
  PRIMARY KEY(key, block)
) STRICT, WITHOUT ROWID;
-- The blocks that are indexed, and the times of their entries.
CREATE TABLE index_blocks(
  block INTEGER PRIMARY KEY CHECK(block >= 0),
  min_us INTEGER NOT NULL,
  max_us INTEGER NOT NULL
) STRICT;

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
  max_requests_per_second INTEGER NOT NULL DEFAULT 0, -- 0: not stated
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

-- Promotions (docs/design/pipeline.md).
CREATE TABLE promotions(
  id TEXT PRIMARY KEY,
  model TEXT NOT NULL REFERENCES models(name),
  engine TEXT NOT NULL REFERENCES engines(name),
  candidate TEXT NOT NULL REFERENCES versions(id),
  fallback TEXT NOT NULL DEFAULT '', -- the version that route_slice and fallback send traffic to; '': none
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

-- Two people may waive an inconclusive clause (docs/design/pipeline.md).
CREATE TABLE waivers(
  id TEXT PRIMARY KEY,
  promotion TEXT NOT NULL,
  stage TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  clause TEXT NOT NULL,
  who TEXT NOT NULL,
  evidence_digest TEXT NOT NULL,
  reason TEXT NOT NULL,
  given_us INTEGER NOT NULL,
  UNIQUE(promotion, stage, attempt, clause, who, evidence_digest),
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

-- Checkpoints and kernels that may not be promoted again under a contract (docs/design/pipeline.md, `block`).
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

-- The newest consumed telemetry window of each model: what tells a window that one model lost from those that
-- others did.
CREATE TABLE router_model_windows(
  router_id TEXT NOT NULL,
  model TEXT NOT NULL,
  number INTEGER NOT NULL,
  PRIMARY KEY(router_id, model)
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
  -- What the request has made, written by the transaction that made it: a retry after a crash finds it.
  effect TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(principal, key)
) STRICT;
CREATE INDEX idempotency_by_age ON idempotency(created_us);

-- Hashes of checkpoint files, so that each is read once: a file is known by these five and re-read when one differs.
CREATE TABLE file_hashes(
  device INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL,
  sha256 TEXT NOT NULL CHECK(length(sha256) = 64),
  hashed_us INTEGER NOT NULL,
  PRIMARY KEY(device, inode)
) STRICT;

-- Webhooks (docs/webhooks.md). A row is written in the transaction of the entry that it tells of and sent after
-- its COMMIT, at least once, under the same message id.
CREATE TABLE outbox(
  id INTEGER PRIMARY KEY,
  endpoint TEXT NOT NULL,
  message TEXT NOT NULL,
  type TEXT NOT NULL,
  payload BLOB NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('pending', 'delivered', 'failed', 'dropped')),
  attempts INTEGER NOT NULL,
  due_us INTEGER NOT NULL,
  created_us INTEGER NOT NULL,
  ended_us INTEGER,
  error TEXT NOT NULL,
  UNIQUE(endpoint, message)
) STRICT;
CREATE INDEX outbox_pending ON outbox(endpoint, due_us) WHERE state = 'pending';
CREATE INDEX outbox_ended ON outbox(endpoint, id) WHERE state <> 'pending';

CREATE TABLE webhook_endpoints(
  name TEXT PRIMARY KEY,
  url TEXT NOT NULL,
  disabled_us INTEGER,
  reason TEXT NOT NULL
) STRICT;

-- Schedules (docs/design/pipeline.md): what asks for promotions by itself, and each time that it did or did not.
CREATE TABLE schedules(
  name TEXT PRIMARY KEY,
  cron TEXT NOT NULL,
  zone TEXT NOT NULL,
  model TEXT NOT NULL,
  request TEXT NOT NULL,
  misfire TEXT NOT NULL CHECK(misfire IN ('skip', 'run_once')),
  grace_s INTEGER NOT NULL CHECK(grace_s >= 0),
  if_running TEXT NOT NULL CHECK(if_running IN ('skip', 'queue')),
  paused INTEGER NOT NULL CHECK(paused IN (0, 1)),
  owner TEXT NOT NULL,
  created_us INTEGER NOT NULL,
  updated_us INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  next_us INTEGER
) STRICT;
CREATE INDEX schedules_due ON schedules(next_us) WHERE paused = 0 AND next_us IS NOT NULL;

CREATE TABLE schedule_fires(
  schedule TEXT NOT NULL,
  fire_us INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK(outcome IN ('fired', 'skipped')),
  why TEXT NOT NULL,
  promotion TEXT,
  owner TEXT NOT NULL,
  decided_us INTEGER NOT NULL,
  evidence_seq INTEGER NOT NULL,
  PRIMARY KEY(schedule, fire_us)
) STRICT;
CREATE UNIQUE INDEX schedule_fires_by_promotion ON schedule_fires(promotion) WHERE promotion IS NOT NULL;
