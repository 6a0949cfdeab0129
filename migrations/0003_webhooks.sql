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
