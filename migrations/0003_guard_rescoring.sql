-- What a guard has seen of live answers that the training kernel's engine scored again (docs/guard.md): JSON, empty:
-- nothing yet, or nothing is rescored. As the other memory of its tests it is written in the transaction of what it led
-- to.
ALTER TABLE guards ADD COLUMN rescoring BLOB NOT NULL DEFAULT x'';
