#include "daemon/pipeline/stages/live_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ClauseVerdict;

/// To six significant digits: enough for a plot, and a third of the bytes.
double rounded(double value) {
  if (!std::isfinite(value)) return value;
  const auto text = fmt::format("{:.6g}", value);
  double near = value;
  std::from_chars(text.data(), text.data() + text.size(), near);
  return near;
}

json figure(const std::optional<double>& value) {
  return value ? json(rounded(*value)) : json(nullptr);
}

std::optional<double> detail(const ClauseVerdict& verdict, const char* name) {
  const auto found = verdict.details.find(name);
  return found == verdict.details.end() ? std::nullopt : std::optional(found->second);
}

/// [p50, p90, p99] of the arm's requests that were answered, by nearest rank; null for fewer than
/// kLeastAnswered.
json quantiles(const route::Window& window, bool candidate, double route::Ending::*latency) {
  std::vector<double> values;
  for (const auto& seen : window.observations) {
    const bool counts = seen.candidate == candidate && seen.outcome == route::Outcome::ok;
    if (counts && std::isfinite(seen.*latency)) values.push_back(seen.*latency);
  }
  if (values.size() < kLeastAnswered) return nullptr;
  std::ranges::sort(values);
  json list = json::array();
  for (const double p : {0.5, 0.9, 0.99}) {
    const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(values.size())));
    list.push_back(rounded(values[std::clamp<std::size_t>(rank, 1, values.size()) - 1]));
  }
  return list;
}

void put_latencies(json& body, const route::Window* window) {
  constexpr std::array<std::pair<const char*, double route::Ending::*>, 2> kKept{
      {{"ttft_ms", &route::Ending::ttft_ms}, {"total_ms", &route::Ending::total_ms}}};
  for (const auto& [name, latency] : kKept) {
    const auto of = [&](bool candidate) {
      return window != nullptr ? quantiles(*window, candidate, latency) : json(nullptr);
    };
    body[name] = {{"candidate", of(true)}, {"incumbent", of(false)}};
  }
}

store::LiveCounts counts_of(const route::Window& window) {
  store::LiveCounts counts;
  for (const auto& seen : window.observations) {
    const bool failed = seen.outcome == route::Outcome::failed;
    (seen.candidate ? counts.requests_candidate : counts.requests_incumbent) += 1;
    (seen.candidate ? counts.failures_candidate : counts.failures_incumbent) += failed ? 1 : 0;
  }
  return counts;
}

/// Lower comes first where not all can be kept.
int rank(const ClauseVerdict& verdict) {
  if (verdict.verdict == schema::Verdict::violated) return 0;
  const bool soft = verdict.severity == schema::Severity::soft;
  const bool named = verdict.role == schema::SliceRole::corpus || verdict.role == schema::SliceRole::critical;
  return (soft ? 3 : 1) + (named ? 0 : 1);
}

/// Which tests are kept, in the order of the verdicts: mostly the same ones in every window, so that their
/// list is stored once.
std::vector<std::size_t> kept(const std::vector<ClauseVerdict>& verdicts) {
  std::vector<std::size_t> places(verdicts.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (places.size() <= kMaxLiveClauses) return places;
  std::ranges::stable_sort(places, {}, [&](std::size_t i) { return rank(verdicts[i]); });
  places.resize(kMaxLiveClauses);
  std::ranges::sort(places);
  return places;
}

json described(const ClauseVerdict& verdict) {
  return {{"clause", verdict.clause},
          {"slice", schema::slice_text(verdict.where)},
          {"severity", schema::to_string(verdict.severity)},
          {"rule", schema::to_string(verdict.rule)},
          {"limit_kind", verdict.limit_kind},
          {"threshold", figure(verdict.threshold)},
          {"alpha", rounded(verdict.alpha)},
          {"e_harm_needed", figure(detail(verdict, "e_harm_needed"))},
          {"e_proof_needed", figure(detail(verdict, "e_proof_needed"))}};
}

json figures_of(const ClauseVerdict& verdict) {
  return {verdict.n,
          verdict.clusters,
          figure(verdict.estimate),
          figure(verdict.lower),
          figure(verdict.upper),
          figure(verdict.e_value),
          figure(detail(verdict, "e_proof")),
          schema::to_string(verdict.verdict)};
}

}  // namespace

store::LivePoint canary_point(const StageProgress& progress, std::int64_t step,
                              const stages::CanaryDecision& decision, const route::Window* window,
                              std::int64_t now_us) {
  json list = json::array();
  json figures = json::array();
  for (const auto i : kept(decision.verdicts)) {
    list.push_back(described(decision.verdicts[i]));
    figures.push_back(figures_of(decision.verdicts[i]));
  }
  json body{{"step", step},
            {"phase", progress.phase},
            {"share_bp", progress.share_bp},
            {"keys", decision.keys_in_step},
            {"exposed_requests", decision.exposed_requests},
            {"exposed_keys", decision.exposed_keys},
            {"action", stages::to_string(decision.action)},
            {"clauses", std::move(figures)}};
  put_latencies(body, window);
  return {.time_us = now_us,
          .counts = window != nullptr ? counts_of(*window) : store::LiveCounts{},
          .clauses = list.empty() ? std::string() : schema::canonical_json(list),
          .body = schema::canonical_json(body)};
}

store::LivePoint shadow_point(const StageProgress& progress, const route::Window& window,
                              std::int64_t now_us) {
  json body{{"phase", progress.phase},
            {"pairs", progress.pairs},
            {"mirror_failed", progress.mirror_failed},
            {"mirror_skipped", progress.mirror_skipped}};
  put_latencies(body, &window);
  return {
      .time_us = now_us, .counts = counts_of(window), .clauses = {}, .body = schema::canonical_json(body)};
}

}  // namespace driftgate::pipeline
