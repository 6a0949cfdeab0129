-- The unit of a guard is a sticky key in an hour of its own, no longer a key and day. The keys that it has counted in an hour
-- (since the epoch, UTC), in the order in which they came: 16 bytes each, the key and the number of its own hour,
-- little-endian. Those of hours before the last one go with the first key of a later hour. A guard that is armed when
-- this is applied counts the keys of that day once more.
DROP TABLE guard_keys;
CREATE TABLE guard_keys(
  guard TEXT NOT NULL REFERENCES guards(id),
  hour INTEGER NOT NULL,
  part INTEGER NOT NULL,
  keys BLOB NOT NULL,
  PRIMARY KEY(guard, hour, part)
) STRICT, WITHOUT ROWID;
