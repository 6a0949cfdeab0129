#include "daemon/cli/audit/audit_reevaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "gpu/table/measurement.hpp"
#include "schema/contract/stored_contract.hpp"
#include "stages/offline_numeric.hpp"
#include "stages/statistical_slice.hpp"

namespace driftgate::cli {

using schema::ErrorCode;
using schema::Stage;

schema::Result<std::vector<schema::ClauseVerdict>> decide_again(const std::string& contract,
                                                                const evidence::StageDecision& decision,
                                                                const std::string& table) {
  const auto stage = schema::stage_from_name(decision.stage);
  const bool fixed = stage == Stage::offline_numeric || stage == Stage::statistical_slice;
  if (!fixed) {
    return schema::fail(ErrorCode::unsupported, "it is decided on traffic, which is not in the bundle");
  }
  if (!stages::decides_by(decision.rules)) {
    return schema::fail(ErrorCode::unsupported,
                        fmt::format("it was decided by version {} of the rules, and this program decides by "
                                    "version {}",
                                    decision.rules, schema::kCurrentRules));
  }
  const bool more = std::ranges::any_of(
      decision.clauses, [](const schema::ClauseVerdict& clause) { return !clause.tables.empty(); });
  if (more) return schema::fail(ErrorCode::unsupported, "its limits rest on a noise floor's tables");
  auto parsed = schema::parse_stored_contract(contract, "the contract");
  if (!parsed.contract) return schema::fail(ErrorCode::invalid_document, "the contract cannot be read");
  auto measured = TRY(gpu::deserialise(table));
  stages::StageInputs inputs;
  inputs.attempt = static_cast<std::uint32_t>(decision.run);
  inputs.code_version = decision.code_version;
  const auto read =
      std::from_chars(decision.seed.data(), decision.seed.data() + decision.seed.size(), inputs.seed, 16);
  if (read.ec != std::errc() || decision.run < 1) {
    return schema::fail(ErrorCode::invalid_document, "body/seed or body/run of the decision is missing");
  }
  auto report = stage == Stage::offline_numeric
                    ? stages::evaluate_offline_numeric(*parsed.contract, measured, inputs)
                    : stages::evaluate_statistical_slice(*parsed.contract, measured, inputs);
  return std::move(report.clauses);
}

}  // namespace driftgate::cli
