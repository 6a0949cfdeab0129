#include "stages/report/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Verdict;
using schema::VerdictRule;

std::optional<double> detail(const ClauseVerdict& v, const char* name) {
  const auto found = v.details.find(name);
  return found == v.details.end() ? std::nullopt : std::optional(found->second);
}

std::string whole(double count) {
  return count_text(static_cast<std::uint64_t>(std::max(0.0, std::ceil(count))));
}

/// What the estimate is held against: a share of rows for a quantile clause, else the threshold.
double line(const ClauseVerdict& v) {
  return detail(v, "tolerated_fraction").value_or(v.threshold.value_or(0));
}

bool wants_low(const ClauseVerdict& v) {
  return v.limit_kind != "min" || v.details.contains("tolerated_fraction");
}

/// The limit's width shrinks with the square root of the data.
std::string more_data(const ClauseVerdict& v) {
  const auto limit = wants_low(v) ? v.upper : v.lower;
  if (!v.estimate || !limit || v.clusters == 0) return "More sequences are needed.";
  const double room = wants_low(v) ? line(v) - *v.estimate : *v.estimate - line(v);
  const double width = std::abs(*limit - *v.estimate);
  if (room <= 0) {
    return fmt::format(
        "The measured figure {} is itself beyond the limit {}: more data will rather show a "
        "violation. The drift must fall, or the limit be another.",
        figure(*v.estimate), figure(line(v)));
  }
  const double factor = std::pow(width / room, 2);
  if (!std::isfinite(factor) || factor <= 1) return "A few more sequences would decide.";
  return fmt::format(
      "If the figure stays at {}, about {} independent sequences would show it ({} were given).",
      figure(*v.estimate), whole(factor * static_cast<double>(v.clusters)), count_text(v.clusters));
}

std::string less_drift(const ClauseVerdict& v) {
  const auto kept = wants_low(v) ? v.upper : v.lower;
  std::string text =
      fmt::format("The figure must come from {} to clearly {} {}.", figure(v.estimate.value_or(0)),
                  wants_low(v) ? "under" : "over", figure(line(v)));
  // A share of rows beyond a fixed value says nothing of another value.
  if (kept && !v.details.contains("tolerated_fraction")) {
    text += fmt::format(" These data would keep a {} of {}.", v.limit_kind, figure(*kept));
  }
  return text;
}

std::string of_arms(const ClauseVerdict& v) {
  const auto incumbent = detail(v, "incumbent_lower");
  const double threshold = v.threshold.value_or(0);
  if (v.verdict == Verdict::inconclusive) return "More requests will decide.";
  if (v.limit_kind == "max_ratio" && incumbent) {
    return fmt::format("The candidate must come under {} times the incumbent's {}: {}.", figure(threshold),
                       figure(*incumbent), figure(threshold * *incumbent));
  }
  return fmt::format("The candidate must come from {} to under {}.",
                     figure(detail(v, "candidate").value_or(v.estimate.value_or(0))), figure(threshold));
}

std::string of_e_value(const ClauseVerdict& v) {
  if (v.verdict == Verdict::violated) {
    return fmt::format(
        "The candidate must fail less often; its failures, not the amount of data, decided ({} of "
        "{} keys).",
        whole(detail(v, "failed_keys").value_or(detail(v, "candidate_failures").value_or(0))),
        count_text(v.n));
  }
  const auto proof = detail(v, "e_proof");
  const auto needed = detail(v, "e_proof_needed");
  if (!proof || !needed) return "More keys will decide.";
  return fmt::format(
      "The proof stands at {} of {}: more keys without a failure raise it, each failure lowers it.",
      figure(*proof), figure(*needed));
}

std::string of_recovery(const ClauseVerdict& v) {
  const double windows =
      detail(v, "clean_windows_needed").value_or(0) - detail(v, "clean_windows").value_or(0);
  const double dwell_ms = detail(v, "dwell_needed_ms").value_or(0) - detail(v, "dwell_ms").value_or(0);
  return fmt::format("{} more clean windows and {} more seconds.", whole(windows), whole(dwell_ms / 1'000));
}

}  // namespace

std::string advice(const ClauseVerdict& v) {
  if (v.verdict == Verdict::pass) return {};
  if (const auto missing = detail(v, "missing_sequences")) {
    return fmt::format("{} more sequences{}.", whole(*missing), on_slice(v.where));
  }
  if (v.details.contains("replicates_wanted")) return "Watch fewer slices, or limit a quantile of it.";
  if (v.details.contains("holm_rejected")) {
    return "Alone it would be a violation, among so many tests it is not: more sequences of this slice "
           "decide.";
  }
  switch (v.rule) {
    case VerdictRule::cannot:
      return "Repair what the message names; a retry spends α.";
    case VerdictRule::undecided:
      return "More sequences are needed.";
    case VerdictRule::test:
    case VerdictRule::limits:
      return v.verdict == Verdict::violated ? less_drift(v) : more_data(v);
    case VerdictRule::margin:
      return v.verdict == Verdict::violated
                 ? fmt::format("The inference kernel must lose fewer outcomes: at most a margin of {} more.",
                               figure(v.threshold.value_or(0)))
                 : std::string("More sequences with outcomes by both kernels are needed.");
    case VerdictRule::arm_limits:
      return of_arms(v);
    case VerdictRule::census:
      return "The event that the message names must not happen: one is enough.";
    case VerdictRule::bounded_test:
    case VerdictRule::bounded_census:
      return v.verdict == Verdict::violated
                 ? less_drift(v)
                 : std::string(
                       "The captures tell too little of each distribution: longer lists narrow the "
                       "bounds, full logits close them.");
    case VerdictRule::bound:
      return fmt::format(
          "The drift must fall, or the max be at least {}, or the bound's assumption be supported by "
          "other captures.",
          v.upper ? figure(*v.upper) : "what the bound comes to");
    case VerdictRule::e_value:
      return of_e_value(v);
    case VerdictRule::recovering:
      return of_recovery(v);
    case VerdictRule::nonfinite:
      return "The kernel must not produce NaN or infinite logits.";
    case VerdictRule::count_at_least:
      return fmt::format("{} more: let the stage run longer, or mirror more.",
                         whole(v.threshold.value_or(0) - v.estimate.value_or(0)));
    case VerdictRule::share_at_least:
      return fmt::format("The share must rise from {} to {}.", percent(v.estimate.value_or(0)),
                         percent(v.threshold.value_or(0)));
    case VerdictRule::age_at_most:
      return "Telemetry must arrive again: look at the router and at the connection to it.";
  }
  return {};
}

}  // namespace driftgate::stages
