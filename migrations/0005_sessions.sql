-- Sign-ins with a browser (docs/roles.md, "Signing in with a browser"): each stands for a token, and ends with it. Of
-- the cookie only the SHA-256 is kept. `seal` is an HMAC of the row under a key outside the database, so that a row
-- that somebody wrote into it lets nobody in.
CREATE TABLE sessions(
  id TEXT PRIMARY KEY NOT NULL,
  hash BLOB NOT NULL UNIQUE CHECK(length(hash) = 32),
  token TEXT NOT NULL REFERENCES tokens(id),
  created_us INTEGER NOT NULL,
  expires_us INTEGER NOT NULL,
  seal BLOB NOT NULL CHECK(length(seal) = 32)
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_token ON sessions(token, created_us);
