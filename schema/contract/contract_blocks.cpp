#include "schema/contract/contract_blocks.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace driftgate::schema {
namespace {

/// Where the incumbent keeps less than this, no ratio is evaluable whatever a step's length.
constexpr std::uint32_t kLargestShareBp = 9'500;

std::string time_text(std::int64_t ms) {
  if (ms % 60'000 == 0) return fmt::format("{} min", ms / 60'000);
  return fmt::format("{:.6g} s", static_cast<double>(ms) / 1'000);
}

}  // namespace

bool compares_failure_rates(const Clause& clause) {
  const auto* subject = std::get_if<MetricSubject>(&clause.subject);
  return subject != nullptr && subject->metric == Metric::error_rate && clause.limits.max_ratio &&
         (clause.stages & stage_bit(Stage::canary)) != 0;
}

std::vector<std::string> clauses_over_blocks(const Contract& contract) {
  std::vector<std::string> found;
  for (const Clause& clause : contract.clauses) {
    if (compares_failure_rates(clause)) found.push_back(clause.address());
  }
  return found;
}

std::int64_t least_step_ms(const CanaryPlan& plan) {
  return kLeastBlocks * plan.burst_ms.value_or(kLeastBlockMs);
}

std::vector<std::string> blocks_plan(const Contract& contract) {
  const auto clauses = clauses_over_blocks(contract);
  if (!contract.canary || clauses.empty()) return {};
  const CanaryPlan& plan = *contract.canary;
  const std::string length =
      plan.burst_ms ? fmt::format("of {} (burst)", time_text(*plan.burst_ms))
                    : fmt::format(
                          "of three times the incumbent's longest stall, at least {} (burst states "
                          "another length)",
                          time_text(kLeastBlockMs));
  return {fmt::format(
      "compares the failure rates of the two kernels over blocks of time {}, from {} blocks on: a step must "
      "last {}{} for the max_ratio of {} to be evaluable there",
      length, kLeastBlocks, time_text(least_step_ms(plan)), plan.burst_ms ? "" : " or longer",
      fmt::join(clauses, ", "))};
}

namespace detail {

void warn_blocks(const Contract& contract, std::vector<Fault>& warnings) {
  if (!contract.canary) return;
  const CanaryPlan& plan = *contract.canary;
  const bool compared = std::ranges::any_of(
      plan.steps, [](const CanaryStep& step) { return step.share_bp <= kLargestShareBp; });
  if (!compared || plan.soak_ms >= least_step_ms(plan)) return;
  for (const Clause& clause : contract.clauses) {
    if (!compares_failure_rates(clause)) continue;
    warnings.push_back(
        {clause.position, "",
         fmt::format("{} compares failure rates over {} blocks of {}, and a step may end after a soak of {}: "
                     "its max_ratio may not be evaluable there; raise soak to {} to see it at each step",
                     clause.address(), kLeastBlocks, time_text(plan.burst_ms.value_or(kLeastBlockMs)),
                     time_text(plan.soak_ms), time_text(least_step_ms(plan)))});
  }
}

}  // namespace detail
}  // namespace driftgate::schema
