-- Schedules (pipeline.md, section 3): what asks for promotions by itself, and each time that it did or did not.
CREATE TABLE schedules(
  name TEXT PRIMARY KEY,
  cron TEXT NOT NULL,
  zone TEXT NOT NULL,
  model TEXT NOT NULL,
  request TEXT NOT NULL,
  misfire TEXT NOT NULL CHECK(misfire IN ('skip', 'run_once')),
  grace_s INTEGER NOT NULL CHECK(grace_s >= 0),
  if_running TEXT NOT NULL CHECK(if_running IN ('skip', 'queue')),
  paused INTEGER NOT NULL CHECK(paused IN (0, 1)),
  owner TEXT NOT NULL,
  created_us INTEGER NOT NULL,
  updated_us INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  next_us INTEGER
) STRICT;
CREATE INDEX schedules_due ON schedules(next_us) WHERE paused = 0 AND next_us IS NOT NULL;

CREATE TABLE schedule_fires(
  schedule TEXT NOT NULL,
  fire_us INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK(outcome IN ('fired', 'skipped')),
  why TEXT NOT NULL,
  promotion TEXT,
  owner TEXT NOT NULL,
  decided_us INTEGER NOT NULL,
  evidence_seq INTEGER NOT NULL,
  PRIMARY KEY(schedule, fire_us)
) STRICT;
CREATE UNIQUE INDEX schedule_fires_by_promotion ON schedule_fires(promotion) WHERE promotion IS NOT NULL;
