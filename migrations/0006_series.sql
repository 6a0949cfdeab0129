-- What stages of live traffic showed over time, for plots (docs/operations.md). No decision depends on it.
-- One row for each run: how many points it has been given, which of them are kept, and its counts so far.
CREATE TABLE live_runs(
  id INTEGER PRIMARY KEY,
  promotion TEXT NOT NULL,
  stage TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  given INTEGER NOT NULL CHECK(given >= 0),
  stride INTEGER NOT NULL CHECK(stride >= 1), -- the points whose number it divides are kept, and the newest
  requests_candidate INTEGER NOT NULL,
  requests_incumbent INTEGER NOT NULL,
  failures_candidate INTEGER NOT NULL,
  failures_incumbent INTEGER NOT NULL,
  UNIQUE(promotion, stage, attempt),
  FOREIGN KEY(promotion, stage, attempt) REFERENCES stage_runs(promotion, stage, attempt)
) STRICT;

-- The counts are since the run began, so that points between can be left out.
CREATE TABLE live_points(
  run INTEGER NOT NULL REFERENCES live_runs(id),
  number INTEGER NOT NULL CHECK(number >= 0),
  time_us INTEGER NOT NULL,
  requests_candidate INTEGER NOT NULL,
  requests_incumbent INTEGER NOT NULL,
  failures_candidate INTEGER NOT NULL,
  failures_incumbent INTEGER NOT NULL,
  clauses TEXT NOT NULL, -- key of live_clauses; '': none were evaluated
  body TEXT NOT NULL,    -- JSON
  PRIMARY KEY(run, number)
) STRICT;

-- Which tests the figures of a point belong to, in their order. Most runs have one such list.
CREATE TABLE live_clauses(
  run INTEGER NOT NULL REFERENCES live_runs(id),
  key TEXT NOT NULL,
  list TEXT NOT NULL, -- JSON
  PRIMARY KEY(run, key)
) STRICT;
