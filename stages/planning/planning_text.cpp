#include "stages/planning/planning_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "schema/json.hpp"
#include "stages/planning/clause_world.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

std::string time_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (seconds < 7'200) return fmt::format("{:.0f} min", std::ceil(seconds / 60));
  return fmt::format("{:.1f} h", seconds / 3'600);
}

/// Simulated figures have no more digits than this.
std::string short_figure(double value) {
  return fmt::format("{:.3g}", value);
}

std::string figure_text(RegressionUnit unit, double value) {
  if (unit == RegressionUnit::share) return short_figure(100 * value) + "%";
  return short_figure(value) + (unit == RegressionUnit::times ? "×" : "");
}

/// "p95 2.1× the incumbent's with 500 pairs, 1.79× with 2,000". Exposures that find no less than the one
/// before are left out.
std::string figures_text(const SmallestRegression& one) {
  std::string text;
  std::optional<double> before;
  for (const FoundRegression& found : one.found) {
    if (!found.figure || found.figure == before) continue;
    text += fmt::format("{}{}{} with {}{}", text.empty() ? one.figure + " " : ", ",
                        figure_text(one.in, *found.figure),
                        text.empty() && one.in == RegressionUnit::times ? " the incumbent's" : "",
                        count_text(found.exposure), text.empty() ? " " + one.unit : "");
    before = found.figure;
  }
  if (!text.empty()) return text;
  return fmt::format("nothing with {} {}", count_text(one.found.back().exposure), one.unit);
}

std::string_view name_of(RegressionUnit unit) {
  if (unit == RegressionUnit::share) return "share";
  return unit == RegressionUnit::times ? "times" : "own";
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

std::string regressions_text(const std::vector<SmallestRegression>& regressions) {
  if (regressions.empty()) return {};
  std::string text =
      fmt::format("\nSmallest regressions that are found in {:.0f} of 10 runs\n", 10 * kPowerWanted);
  std::vector<std::string> assumed;
  for (const SmallestRegression& one : regressions) {
    text += fmt::format("  - {} in {} ({}{}): ", one.clause, schema::to_string(one.stage), one.limit,
                        one.slice_share < 1
                            ? fmt::format(", a slice with {} of traffic", percent(one.slice_share))
                            : std::string());
    if (!one.found.empty()) {
      text += figures_text(one) + "\n";
      for (const std::string& what : one.assumes) {
        if (std::ranges::find(assumed, what) == assumed.end()) assumed.push_back(what);
      }
    } else {
      text += (one.why_not.empty() ? one.always : one.why_not) + "\n";
    }
  }
  if (!assumed.empty()) text += fmt::format("  Assumed: {}.\n", fmt::join(assumed, "; "));
  return text;
}

std::string regressions_json(const std::vector<SmallestRegression>& regressions) {
  auto list = nlohmann::json::array();
  for (const SmallestRegression& one : regressions) {
    auto found = nlohmann::json::array();
    for (const FoundRegression& here : one.found) {
      found.push_back({{"exposure", here.exposure},
                       {"figure", here.figure ? nlohmann::json(*here.figure) : nlohmann::json(nullptr)}});
    }
    list.push_back({{"clause", one.clause},
                    {"stage", schema::to_string(one.stage)},
                    {"limit", one.limit},
                    {"slice_share", one.slice_share},
                    {"unit", one.unit},
                    {"alpha", one.alpha},
                    {"in", name_of(one.in)},
                    {"figure", one.figure},
                    {"assumes", one.assumes},
                    {"always", one.always},
                    {"why_not", one.why_not},
                    {"found", std::move(found)}});
  }
  return schema::canonical_json(list);
}

}  // namespace driftgate::stages
