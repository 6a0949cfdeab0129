-- Brings a database that revision 44abce1 wrote, by ten migrations of its own, to the schema of 0001_initial: the
-- log's signed head is all that it lacks. daemon/store/sqlite/migrate.cpp applies it to such a database alone.
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
DELETE FROM schema_migrations;
