#pragma once

// The columns of `promotions` in the order of PromotionRow's members, for the SELECT lists of statements.
#define DRIFTGATE_PROMOTION_COLUMNS                                                                        \
  "id, model, engine, candidate, contract, state, stage, attempt, traffic, baseline, seed, request, "      \
  "requester, "                                                                                            \
  "created_us, updated_us, deadline_us, resume_state, ended_us, outcome, reason, revision, evidence_seq, " \
  "fallback"

// States as their partial indexes have them (migrations/0001_initial.sql, 0007_lists.sql): the text must be
// the same.
#define DRIFTGATE_OPEN_STATES                                                                      \
  "state IN ('queued', 'running', 'paused', 'awaiting_approval', 'inconclusive', 'rolling_back', " \
  "'finalizing')"
#define DRIFTGATE_NEEDING_STATES "state IN ('awaiting_approval', 'inconclusive', 'paused')"
