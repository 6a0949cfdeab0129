-- Guards: what goes on being watched once a promotion has succeeded (docs/guard.md). At most one is armed for a model.
-- `traffic`, `probes` and `identity` are the memory of its tests (JSON; empty: nothing yet), each written in the
-- transaction of what it led to; `orders` is what an alarm has ordered and what was done about it (JSON).
CREATE TABLE guards(
  ordinal INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  model TEXT NOT NULL REFERENCES models(name),
  promotion TEXT NOT NULL UNIQUE REFERENCES promotions(id),
  version TEXT NOT NULL REFERENCES versions(id),
  contract TEXT NOT NULL REFERENCES contracts(digest),
  armed_us INTEGER NOT NULL,
  ended_us INTEGER,
  reason TEXT NOT NULL,
  traffic BLOB NOT NULL,
  probes BLOB NOT NULL,
  identity BLOB NOT NULL,
  orders TEXT NOT NULL,
  alarms INTEGER NOT NULL DEFAULT 0,
  evidence_seq INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX guards_one_armed ON guards(model) WHERE ended_us IS NULL;
CREATE INDEX guards_by_model ON guards(model, ordinal);
CREATE INDEX guards_by_version ON guards(version, ordinal);

-- The sticky keys that a guard has counted on a day (days since the epoch, UTC), 8 bytes each, little-endian, in the
-- order in which they came. Those of earlier days go with the first key of a later one.
CREATE TABLE guard_keys(
  guard TEXT NOT NULL REFERENCES guards(id),
  day INTEGER NOT NULL,
  part INTEGER NOT NULL,
  keys BLOB NOT NULL,
  PRIMARY KEY(guard, day, part)
) STRICT, WITHOUT ROWID;
