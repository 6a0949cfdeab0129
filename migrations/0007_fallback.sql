-- The version that route_slice and fallback send traffic to, resolved when a promotion is asked for ('' = none),
-- and the rate that an engine is registered for (0 = not stated).
ALTER TABLE promotions ADD COLUMN fallback TEXT NOT NULL DEFAULT '';
ALTER TABLE engines ADD COLUMN max_requests_per_second INTEGER NOT NULL DEFAULT 0;
