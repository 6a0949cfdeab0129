-- What a request with an Idempotency-Key has made, written by the transaction that made it: a retry after a crash
-- finds it instead of making another one.
ALTER TABLE idempotency ADD COLUMN effect TEXT NOT NULL DEFAULT '';
