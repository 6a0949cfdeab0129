-- The index of the evidence log, derived from it: for each block of 1,024 entries and each value that they are found
-- by, one row with the places of the entries that have it. It replaces indexes that each append had to write to at
-- random places.
DROP INDEX entries_by_model;
DROP INDEX entries_by_checkpoint;
DROP INDEX entries_by_kind;
DROP INDEX entries_by_time;

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

-- Nodes of the Merkle tree over 64 entries and more, in the order in which they complete. Those below follow from
-- their entries whenever they are needed, which is cheaper than two rows for each entry.
DROP TABLE tree_nodes;
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
