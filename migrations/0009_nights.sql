-- Schedules whose nights can be told afterwards (docs/roles.md, "Schedules"). A fire keeps the whole reason, the revision of the
-- schedule that it was decided for, and how many fire times before it were missed with it, from which on. Fires that
-- older versions of the program stored have no reason; their entries have it.
ALTER TABLE schedule_fires ADD COLUMN reason TEXT;
ALTER TABLE schedule_fires ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
ALTER TABLE schedule_fires ADD COLUMN missed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedule_fires ADD COLUMN missed_from_us INTEGER;
CREATE INDEX schedule_fires_by_time ON schedule_fires(fire_us, schedule);
CREATE INDEX schedule_fires_by_decision ON schedule_fires(decided_us);

-- The revision with which a schedule was made: fires of lower ones belong to a deleted schedule of the same name.
ALTER TABLE schedules ADD COLUMN first_revision INTEGER NOT NULL DEFAULT 1;
-- The last revision of deleted schedules: one that is made again under the name goes on from it.
CREATE TABLE deleted_schedules(
  name TEXT PRIMARY KEY,
  revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- Those that were deleted before: their entries say with which revision.
INSERT INTO deleted_schedules(name, revision)
  SELECT json_extract(CAST(bytes AS TEXT), '$.body.schedule') AS deleted,
    max(json_extract(CAST(bytes AS TEXT), '$.body.revision'))
  FROM entries WHERE kind = 'schedule_deleted' GROUP BY deleted
  HAVING typeof(deleted) = 'text' AND typeof(max(json_extract(CAST(bytes AS TEXT), '$.body.revision'))) = 'integer';

-- The times at which a report of the schedules was due and put into the outbox, each once. The first row only says from
-- when on reports are due; its since_us is its report_us. What was decided or ended after put_us is news for the next.
CREATE TABLE schedule_reports(
  report_us INTEGER PRIMARY KEY,
  since_us INTEGER NOT NULL,
  put_us INTEGER NOT NULL
) STRICT;
