#include "stages/power_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "schema/json.hpp"

namespace driftgate::stages {
namespace {

std::string time_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (seconds < 7'200) return fmt::format("{:.0f} min", std::ceil(seconds / 60));
  return fmt::format("{:.1f} h", seconds / 3'600);
}

}  // namespace

std::string power_text(const std::vector<ClausePower>& powers, const schema::Contract& contract,
                       double requests_per_second) {
  if (powers.empty()) return {};
  std::string text =
      fmt::format("\nSamples needed to pass in {:.0f} of 10 runs when the true value is half the limit\n",
                  10 * kPowerWanted);
  for (const ClausePower& power : powers) {
    if (!power.n) {
      text += fmt::format("  - {} in {}: {}\n", power.clause, schema::to_string(power.stage), power.why_not);
      continue;
    }
    text += fmt::format("  - {} in {}: about {} {} (assuming {})\n", power.clause,
                        schema::to_string(power.stage), *power.n, power.unit, power.assumes);
    for (const auto& step : durations(power, contract, requests_per_second)) {
      text += fmt::format("      {} at {}% of {:g} requests a second, each with a key of its own\n",
                          time_text(step.seconds), step.share_bp / 100.0, requests_per_second);
    }
  }
  return text;
}

std::string power_json(const std::vector<ClausePower>& powers, const schema::Contract& contract,
                       double requests_per_second) {
  auto list = nlohmann::json::array();
  for (const ClausePower& power : powers) {
    nlohmann::json item = {{"clause", power.clause},   {"stage", schema::to_string(power.stage)},
                           {"unit", power.unit},       {"alpha", power.alpha},
                           {"assumes", power.assumes}, {"why_not", power.why_not}};
    item["n"] = power.n ? nlohmann::json(*power.n) : nlohmann::json(nullptr);
    auto steps = nlohmann::json::array();
    for (const auto& step : durations(power, contract, requests_per_second))
      steps.push_back({{"share_bp", step.share_bp}, {"seconds", step.seconds}});
    item["durations"] = std::move(steps);
    list.push_back(std::move(item));
  }
  return schema::canonical_json(list);
}

}  // namespace driftgate::stages
