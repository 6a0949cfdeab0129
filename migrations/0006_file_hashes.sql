-- Hashes of checkpoint files, so that each is read once: a file is known by these five and re-read when one differs.
CREATE TABLE file_hashes(
  device INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL,
  sha256 TEXT NOT NULL CHECK(length(sha256) = 64),
  hashed_us INTEGER NOT NULL,
  PRIMARY KEY(device, inode)
) STRICT;
