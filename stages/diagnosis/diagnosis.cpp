#include "stages/diagnosis/diagnosis.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "stages/diagnosis/diagnosis_scope.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

using nlohmann::json;

/// Above this mean kl_inf_train, nats, no kernel that only rounds was seen.
constexpr double kLargeKl = 0.2;
constexpr double kLargeLogRatio = 0.4;  ///< mean abs(log_ratio), where no KL is known

/// What is known of the drift's size, best first; empty without any figure.
std::string size_text(const ScopeFigures& all) {
  std::string out;
  const auto add = [&out](const char* name, double value) {
    if (!std::isnan(value)) out += fmt::format("{}mean {} {}", out.empty() ? "" : ", ", name, figure(value));
  };
  add("kl_inf_train", all.kl);
  add("logit_rms", all.rms);
  if (all.rows == 0) add("abs_log_ratio", all.abs_log_ratio);
  return out;
}

/// A drift of up to this multiple of the floor is noise.
constexpr double kFloorMultiple = 1.5;

/// The sequences that are not in `chosen`.
Selection others(const gpu::MeasurementTable& table, const Selection& chosen) {
  std::vector<bool> inside(table.sequences.size(), false);
  for (const std::size_t i : chosen) inside[i] = true;
  Selection out;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (!inside[i]) out.push_back(i);
  }
  return out;
}

/// Why nothing is said of so small a drift; empty when it is not small.
std::string noise_text(const ScopeFigures& all, const ScopeFigures& scope, const Floors& floors) {
  const bool logits = all.rows > 0;
  const auto size = [logits](const ScopeFigures& f) { return logits ? f.rms : f.abs_log_ratio; };
  const double drift = std::max(size(all), size(scope));
  for (const FloorSide side : kFloorSides) {
    const gpu::MeasurementTable* table = floors.of(side).table;
    if (table == nullptr) continue;
    const double floor = size(figures_of(*table, everything(*table)));
    if (!(drift <= kFloorMultiple * floor)) continue;
    return fmt::format("The drift ({}) is {} times the noise floor of K_{}, so there is nothing to explain.",
                       size_text(all), figure(drift / floor), to_string(side));
  }
  if (!below(all, kLeastKl, kLeastLogRatio) || !below(scope, kLeastKl, kLeastLogRatio)) return {};
  return fmt::format("The drift ({}) is what rounding in float32 leaves, so there is nothing to explain.",
                     size_text(all));
}

std::string floor_text(double size, const Floors& floors) {
  std::string out;
  for (const FloorSide side : kFloorSides) {
    const gpu::MeasurementTable* table = floors.of(side).table;
    if (table == nullptr) continue;
    const double floor = figures_of(*table, everything(*table)).rms;
    if (std::isnan(floor)) continue;
    out += floor > 0 ? fmt::format(" It is {} times the noise floor of K_{}.", figure(size / floor),
                                   to_string(side))
                     : fmt::format(" The noise floor of K_{} is 0.", to_string(side));
  }
  return out;
}

std::string none_text(const ScopeFigures& all, const Floors& floors) {
  const std::string size = size_text(all);
  if (size.empty())
    return "Neither full distributions nor target tokens are known of any row, so no pattern can be "
           "found.";
  if (all.rows > 0 && all.rms == 0)
    return "The two captures have the same logits up to a constant in each row.";
  const bool large = std::isnan(all.kl) ? all.abs_log_ratio > kLargeLogRatio : all.kl > kLargeKl;
  const std::string start = fmt::format("No known pattern. The drift ({}) ", size);
  if (large) {
    return start +
           "is larger than rounding explains, so something is wrong that this diagnosis does not know; the "
           "worst "
           "rows and the profile are the place to start." +
           floor_text(all.rms, floors);
  }
  if (below(all, kRoundingKl, kRoundingLogRatio)) {
    return start +
           "is as small as what rounding in bf16 was seen to leave, and no sequence, slice or position "
           "stands out." +
           floor_text(all.rms, floors);
  }
  // Coarser rounding and a fault of the same size look alike: only the kernel's own noise tells them apart.
  const std::string floor = floor_text(all.rms, floors);
  return start +
         "stands out in no sequence, slice or position, and its size alone does not say whether rounding "
         "explains it" +
         (floor.empty()
              ? "; noise floors would (--floor-train, --floor-inf: the same kernel at batch 1 and batch N)."
              : "." + floor);
}

json bucket_json(const gpu::ProfileBucket& bucket, double from) {
  json out{{"from", from}, {"rows", bucket.rows}, {"tokens", bucket.tokens}};
  const auto rows = static_cast<double>(bucket.rows);
  if (bucket.rows > 0) {
    out["tv"] = bucket.tv / rows;
    out["kl_inf_train"] = bucket.kl_inf_train / rows;
    out["logit_rms"] = bucket.logit_rms / rows;
    out["top1_flip"] = static_cast<double>(bucket.top1_flips) / rows;
  }
  if (bucket.tokens > 0) out["abs_log_ratio"] = bucket.abs_log_ratio / static_cast<double>(bucket.tokens);
  for (const char* name : {"tv", "kl_inf_train", "logit_rms", "abs_log_ratio"}) {
    if (out.contains(name) && !std::isfinite(out[name].get<double>())) out[name] = "Infinity";
  }
  return out;
}

template <std::size_t N, typename From>
json buckets_json(const std::array<gpu::ProfileBucket, N>& buckets, From from) {
  json list = json::array();
  for (std::size_t i = 0; i < N; ++i) {
    if (buckets[i].rows + buckets[i].tokens > 0) list.push_back(bucket_json(buckets[i], from(i)));
  }
  return list;
}

}  // namespace

std::string_view to_string(Pattern pattern) {
  constexpr std::array<std::string_view, 16> names = {
      "nonfinite",      "truncated_support",   "off_by_one",       "permuted_columns",
      "scaled_logits",  "bf16_logprobs",       "wrong_weights",    "one_slice",
      "some_sequences", "grows_with_position", "attention_scores", "sequence_start",
      "some_weights",   "column_range",        "penalty",          "leaks_target"};
  return names.at(static_cast<std::size_t>(pattern));
}

Diagnosis diagnose(const gpu::MeasurementTable& table, const Floors& floors) {
  Diagnosis out;
  const ScopeFigures all = figures_of(table, everything(table));
  look_for_nonfinite(table, out);
  look_for_bf16(table, out);
  const Scope scope = find_scope(table);
  const ScopeFigures figures = scope.part ? figures_of(table, scope.sequences) : all;
  const bool known = all.rows > 0 || !std::isnan(all.abs_log_ratio);
  const std::string noise =
      known && out.suspicions.empty() && all.rms != 0 ? noise_text(all, figures, floors) : "";
  if (!noise.empty()) {
    out.summary = noise;
    return out;
  }
  const bool told = look_for_columns(table, out) || look_for_leak(table, out);
  if (!told &&
      !look_for_onset(table, out)) {  // sequences that reach that position stand out by their length alone
    if (!look_for_shapes(figures, scope, out) && !look_for_position(table, scope, out)) {
      // What stands out beside a drift that is a fault by itself is not the whole fault.
      const ScopeFigures rest = scope.part ? figures_of(table, others(table, scope.sequences)) : all;
      const bool from_0 = table.profile.by_position[0].rows + table.profile.by_position[0].tokens > 0;
      look_for_weights(rest, from_0, out);
    }
    look_for_subset(scope, out);
  }
  if (out.suspicions.empty()) look_for_knowledge(table, out);
  if (out.suspicions.empty()) {
    out.summary = none_text(all, floors);
    return out;
  }
  const Suspicion& first = out.suspicions.front();
  out.summary = fmt::format("Looks like {}, because {}.", first.looks_like, first.because);
  if (all.rows > 0) out.summary += floor_text(all.rms, floors);
  return out;
}

std::string diagnosis_json(const Diagnosis& diagnosis, const gpu::MeasurementTable& table) {
  json suspicions = json::array();
  for (const Suspicion& s : diagnosis.suspicions) {
    suspicions.push_back({{"pattern", to_string(s.pattern)},
                          {"where", s.where},
                          {"looks_like", s.looks_like},
                          {"because", s.because},
                          {"next", s.next},
                          {"figures", s.figures}});
  }
  const auto lower = [](const auto& edges) {
    return [&edges](std::size_t i) { return i == 0 ? 0.0 : edges[i - 1]; };
  };
  const gpu::DriftProfile& profile = table.profile;
  json out{{"summary", diagnosis.summary},
           {"suspicions", std::move(suspicions)},
           {"profile",
            {{"by_position",
              buckets_json(profile.by_position,
                           [](std::size_t i) { return static_cast<double>(gpu::first_position(i)); })},
             {"by_entropy", buckets_json(profile.by_entropy, lower(gpu::kEntropyEdges))},
             {"by_probability", buckets_json(profile.by_probability, lower(gpu::kProbabilityEdges))}}}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace driftgate::stages
