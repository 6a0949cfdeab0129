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
