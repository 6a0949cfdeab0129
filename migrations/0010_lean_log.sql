-- The log's table keeps what is hashed and nothing else; what entries are found by is read from their bytes and kept
-- in an index that is only ever added to at its end. The daemon fills the index after this migration.
CREATE TABLE lean_entries(
  seq INTEGER PRIMARY KEY CHECK(seq >= 0),
  bytes BLOB NOT NULL CHECK(length(bytes) BETWEEN 1 AND 65535)
) STRICT;
INSERT INTO lean_entries(seq, bytes) SELECT seq, bytes FROM entries ORDER BY seq;
DROP TABLE entries;
ALTER TABLE lean_entries RENAME TO entries;
-- Only appending is possible: UPDATE and DELETE fail, and INSERT OR REPLACE fails where recursive triggers are on, as
-- in each connection of the daemon. Its writer also refuses a number that is not the next
-- (daemon/store/sqlite/append_guard.cpp): a trigger before each INSERT costs a tenth of the whole append.
CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries
  BEGIN SELECT RAISE(ABORT, 'the log is append-only: no UPDATE'); END;
CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries
  BEGIN SELECT RAISE(ABORT, 'the log is append-only: no DELETE'); END;

DROP TABLE postings;
DROP TABLE index_keys;
DROP TABLE index_blocks;
-- For each block of 512 entries (level 0) and each value that they are found by, the places of the entries that have
-- it; for 16 nodes of a level (levels 1 to 3), which of them have it. `block` is the last block of a node, `key` the
-- first 64 bits of SHA-256(field ‖ value) (daemon/evidence/index).
CREATE TABLE index_places(
  block INTEGER NOT NULL CHECK(block >= 0),
  level INTEGER NOT NULL CHECK(level BETWEEN 0 AND 3),
  key INTEGER NOT NULL,
  places BLOB NOT NULL CHECK(length(places) BETWEEN 2 AND 64),
  PRIMARY KEY(block, level, key)
) STRICT, WITHOUT ROWID;
-- The nodes that are stored, and the times of their entries.
CREATE TABLE index_nodes(
  block INTEGER NOT NULL CHECK(block >= 0),
  level INTEGER NOT NULL CHECK(level BETWEEN 0 AND 3),
  min_us INTEGER NOT NULL,
  max_us INTEGER NOT NULL,
  PRIMARY KEY(block, level)
) STRICT, WITHOUT ROWID;
