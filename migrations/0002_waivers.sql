-- Two people may waive an inconclusive clause (pipeline.md, section 3).
CREATE TABLE waivers(
  id TEXT PRIMARY KEY,
  promotion TEXT NOT NULL,
  stage TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  clause TEXT NOT NULL,
  who TEXT NOT NULL,
  evidence_digest TEXT NOT NULL,
  reason TEXT NOT NULL,
  given_us INTEGER NOT NULL,
  UNIQUE(promotion, stage, attempt, clause, who, evidence_digest),
  FOREIGN KEY(promotion, stage, attempt) REFERENCES stage_runs(promotion, stage, attempt)
) STRICT;
