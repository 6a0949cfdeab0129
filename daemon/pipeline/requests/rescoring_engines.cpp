#include "daemon/pipeline/requests/rescoring_engines.hpp"

#include <fmt/format.h>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/store/registry/engines.hpp"
#include "schema/contract/contract_guard.hpp"

namespace driftgate::pipeline {
namespace {

constexpr std::int64_t kMaxEngines = 10'000;

schema::Result<jobs::RescoreEngine> engine_of(const store::EngineRow& row, const std::string& model) {
  const auto abilities = TRY(jobs::abilities_from_json(row.abilities));
  return jobs::RescoreEngine{.name = row.name,
                             .base_url = row.base_url,
                             .model = abilities.models.empty() ? model : abilities.models.front(),
                             .scoring = abilities.scoring,
                             .token_ids = abilities.token_ids};
}

std::string cannot_score(const std::string& engine) {
  return fmt::format("engine {} cannot score tokens that it is given", engine);
}

}  // namespace

schema::Result<RescoringEngines> find_rescoring_engines(store::Reader& reader,
                                                        const schema::Contract& contract,
                                                        const std::string& model, const std::string& served,
                                                        const std::string& checkpoint) {
  RescoringEngines found;
  if (schema::rescored_clauses(contract).empty()) {
    found.why = "no clause of the contract limits what an answer's own tokens show";
    return found;
  }
  const auto row = TRY(store::find_engine(reader, served));
  if (!row) {
    found.why = fmt::format("engine {} is not registered any more", served);
    return found;
  }
  found.served = TRY(engine_of(*row, model));
  if (found.served.scoring == jobs::Scoring::none) {
    found.why = cannot_score(served);
    return found;
  }
  found.why =
      fmt::format("no other engine is registered that serves this checkpoint with the training kernel {}",
                  contract.train_kernel);
  const auto engines = TRY(store::list_engines(reader, "", kMaxEngines));
  for (const auto& engine : engines) {
    const bool fits = engine.kernel == contract.train_kernel && engine.checkpoint == checkpoint &&
                      engine.name != served && engine.base_url != row->base_url;
    if (!fits) continue;
    auto reference = TRY(engine_of(engine, model));
    if (reference.scoring == jobs::Scoring::none) {
      found.why = cannot_score(engine.name);
      continue;
    }
    found.reference = std::move(reference);
    found.why.clear();
    return found;
  }
  return found;
}

}  // namespace driftgate::pipeline
