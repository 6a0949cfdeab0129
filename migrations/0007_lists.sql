-- Lists of promotions (daemon/store/promotions/promotion_list.cpp): each filter has an index in each order, so that a
-- page costs as many rows as it shows. `newest` and `oldest` go by id, `updated` by the time of the last change.
CREATE INDEX promotions_updated ON promotions(updated_us, id);
CREATE INDEX promotions_by_model_updated ON promotions(model, updated_us, id);
CREATE INDEX promotions_by_state ON promotions(state, id);
CREATE INDEX promotions_by_state_updated ON promotions(state, updated_us, id);
CREATE INDEX promotions_by_requester ON promotions(requester, id);
CREATE INDEX promotions_by_requester_updated ON promotions(requester, updated_us, id);
CREATE INDEX promotions_by_contract ON promotions(contract, id);
CREATE INDEX promotions_by_contract_updated ON promotions(contract, updated_us, id);
CREATE INDEX promotions_open_updated ON promotions(updated_us, id) WHERE state IN ('queued', 'running', 'paused',
  'awaiting_approval', 'inconclusive', 'rolling_back', 'finalizing');
CREATE INDEX promotions_needing ON promotions(id) WHERE state IN ('awaiting_approval', 'inconclusive', 'paused');
CREATE INDEX promotions_needing_updated ON promotions(updated_us, id) WHERE state IN ('awaiting_approval',
  'inconclusive', 'paused');

-- The overview of models: the open promotions of each, the newest that ended, its schedules.
CREATE INDEX promotions_open_by_model ON promotions(model, id) WHERE state IN ('queued', 'running', 'paused',
  'awaiting_approval', 'inconclusive', 'rolling_back', 'finalizing');
CREATE INDEX promotions_ended_by_model ON promotions(model, ended_us) WHERE ended_us IS NOT NULL;
CREATE INDEX models_held ON models(name) WHERE hold IS NOT NULL;
CREATE INDEX schedules_by_model ON schedules(model, name);

-- What a list says of verdicts: their numbers, and which clauses did not pass, without reading their details.
CREATE INDEX verdicts_counted ON verdicts(promotion, stage, attempt, verdict);
CREATE INDEX verdicts_not_passed ON verdicts(promotion, stage, attempt, clause, slice, verdict)
  WHERE verdict <> 'pass';
