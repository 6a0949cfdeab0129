#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "daemon/store/registry/engines.hpp"
#include "daemon/store/registry/models.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "stages/abilities.hpp"

namespace driftgate::pipeline {

/// The clauses of the contract that cannot be decided for lack of an ability, by what registration found of
/// the candidate's engine and of the one that serves the model now. An incumbent whose engine is not
/// registered any more is taken to have every ability.
[[nodiscard]] schema::Result<std::vector<stages::AbilityGap>> find_ability_gaps(
    store::Reader& reader, const schema::Contract& contract, const store::ModelRow& model,
    const store::EngineRow& candidate);

/// [{"stage", "clause", "severity", "engine", "message"}].
[[nodiscard]] nlohmann::json gaps_json(const std::vector<stages::AbilityGap>& gaps);

/// `conflict` when a hard clause is among them: its stage would end as an error after hours. The message
/// names every such clause and what to do.
[[nodiscard]] schema::Result<void> refuse_ability_gaps(const std::vector<stages::AbilityGap>& gaps);

}  // namespace driftgate::pipeline
