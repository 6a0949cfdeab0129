-- Jobs as people see them (daemon/store/jobs.cpp): where each ran, who asked for its end, and an index for each filter
-- of the list. `model` repeats that of the promotion.
ALTER TABLE jobs ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN runner TEXT NOT NULL DEFAULT ''; -- '' while it has not ended: the runner itself is asked
ALTER TABLE jobs ADD COLUMN nodes TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN place_reason TEXT NOT NULL DEFAULT ''; -- in the words of Slurm
-- Who asked for its end: it ends so, whatever becomes of its process.
ALTER TABLE jobs ADD COLUMN cancelled_by TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN cancel_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN cancelled_us INTEGER;

UPDATE jobs SET model = coalesce((SELECT p.model FROM promotions p WHERE p.id = jobs.promotion), '');
-- Earlier versions left the rows of jobs open whose stage had ended without them.
UPDATE jobs SET state = 'cancelled',
  result = '{"digests":{},"error":{"code":"conflict","message":"its stage ended without it","where":""},"files":{},'
    || '"ok":false,"summary":{},"wall_ms":0}',
  ended_us = coalesce((SELECT r.ended_us FROM stage_runs r WHERE r.promotion = jobs.promotion AND r.stage = jobs.stage
    AND r.attempt = jobs.attempt), created_us)
  WHERE state IN ('pending', 'running') AND EXISTS (SELECT 1 FROM stage_runs r WHERE r.promotion = jobs.promotion
    AND r.stage = jobs.stage AND r.attempt = jobs.attempt AND r.state <> 'running');

CREATE INDEX jobs_by_model ON jobs(model, id);
CREATE INDEX jobs_by_promotion ON jobs(promotion, id);
CREATE INDEX jobs_by_state ON jobs(state, id);
CREATE INDEX jobs_by_kind ON jobs(kind, id);
