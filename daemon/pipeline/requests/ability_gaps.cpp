#include "daemon/pipeline/requests/ability_gaps.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/store/registry/versions.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

schema::Result<stages::EngineCan> abilities_of(const store::EngineRow& engine) {
  const auto found = TRY(jobs::abilities_from_json(engine.abilities));
  return jobs::engine_can(engine.name, found);
}

}  // namespace

schema::Result<std::vector<stages::AbilityGap>> find_ability_gaps(store::Reader& reader,
                                                                  const schema::Contract& contract,
                                                                  const store::ModelRow& model,
                                                                  const store::EngineRow& candidate) {
  auto incumbent = stages::able_engine();
  const auto version = TRY(store::find_version(reader, model.incumbent));
  if (version) {
    const auto engine = TRY(store::find_engine(reader, version->engine));
    if (engine) incumbent = TRY(abilities_of(*engine));
  }
  const auto can = TRY(abilities_of(candidate));
  return stages::ability_gaps(contract, incumbent, can);
}

nlohmann::json gaps_json(const std::vector<stages::AbilityGap>& gaps) {
  auto list = nlohmann::json::array();
  for (const auto& gap : gaps) {
    list.push_back({{"stage", schema::to_string(gap.stage)},
                    {"clause", gap.clause},
                    {"severity", schema::to_string(gap.severity)},
                    {"engine", gap.engine},
                    {"message", gap.message}});
  }
  return list;
}

schema::Result<void> refuse_ability_gaps(const std::vector<stages::AbilityGap>& gaps) {
  std::string sentences;
  for (const auto& gap : gaps)
    if (gap.severity == schema::Severity::hard) sentences += gap.message + " ";
  if (sentences.empty()) return {};
  return schema::fail(
      ErrorCode::conflict,
      sentences +
          "Make these clauses soft or leave them out of the stage, register the engine again if "
          "it can do more by now, or request the promotion with \"accept_undecidable\": true "
          "(`driftgate promote --accept-undecidable`), which ends it there unless the clause is "
          "waived.",
      "/contract");
}

}  // namespace driftgate::pipeline
