-- The newest consumed telemetry window of each model: what tells a window that one model lost from those that
-- others did.
CREATE TABLE router_model_windows(
  router_id TEXT NOT NULL,
  model TEXT NOT NULL,
  number INTEGER NOT NULL,
  PRIMARY KEY(router_id, model)
) STRICT;
