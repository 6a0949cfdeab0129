#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stages/diagnosis/diagnosis_scope.hpp"
#include "stages/report/wording.hpp"

// Patterns that the position of a row shows.

namespace driftgate::stages {
namespace {

using Steps = std::vector<PositionStep>;

constexpr std::uint64_t kLeastBucketRows = 30;
constexpr std::size_t kLeastBuckets = 3;
/// Position 0 has one row of each sequence, and mostly the same token in all.
constexpr std::uint64_t kLeastFirstRows = 8;
/// Few positions attend to few tokens, so every fault is smaller there; growth is looked for from here on.
constexpr std::int64_t kSettled = 8;
/// The last bucket over the first, and from bucket to bucket no fall.
constexpr double kGrowth = 1.6, kSuddenly = 3, kNoFall = 0.98;
/// The first bucket over the last, and from bucket to bucket no rise.
constexpr double kFade = 3, kNoRise = 1.1;
/// Drift that the rounding of bf16 does not leave, where none says what that is (kRoundingKl): attention that
/// is fused has no drift at position 0 either.
constexpr double kAttentionKl = 5e-4, kAttentionLogRatio = 0.02;
/// At position 0 there is nothing, beside the rest and by itself; before kSettled there is something.
constexpr double kNothingBeside = 0.1, kNothingKl = 2e-4, kSomething = 0.25;

bool over(const PositionStep& step, double kl, double log_ratio) {
  return std::isnan(step.kl) ? step.size > log_ratio : step.kl > kl;
}

Steps from(const Steps& steps, std::int64_t position) {
  Steps out;
  std::ranges::copy_if(steps, std::back_inserter(out), [&](const auto& s) { return s.from >= position; });
  return out;
}

bool smaller(const PositionStep& a, const PositionStep& b) {
  return a.size < b.size;
}

bool look_for_start(const Steps& all, Diagnosis& out) {
  // At position 0 a prefix that differs by repetition alone leaves no trace.
  const Steps steps = from(all, 1);
  if (steps.size() < kLeastBuckets) return false;
  const PositionStep &first = steps.front(), &last = steps.back();
  if (!over(first, kRoundingKl, kRoundingLogRatio) || !(first.size >= kFade * last.size)) return false;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (steps[i].size > kNoRise * steps[i - 1].size) return false;
  }
  Suspicion& s =
      add_suspicion(out, Pattern::sequence_start, fmt::format("from position {} on", all.front().from));
  s.looks_like =
      "sequences that begin differently: another or no token before the text, another chat template or "
      "system "
      "prompt, padding on the left";
  s.because = fmt::format(
      "the mean drift falls from {} at position {} to {} from position {} on, never rising between",
      figure(first.size), first.from, figure(last.size), last.from);
  s.next =
      "Compare the token ids that the two kernels were given, the first ones above all, and what the engine "
      "puts "
      "before them by itself.";
  s.figures = {{"first", first.size}, {"last", last.size}, {"last_from", static_cast<double>(last.from)}};
  return true;
}

bool look_for_attention(const Steps& all, Diagnosis& out) {
  const auto zero = std::ranges::find(all, 0, &PositionStep::from);
  if (zero == all.end() || zero->rows < kLeastFirstRows) return false;
  const Steps later = from(all, 1);
  const auto settled = std::ranges::find_if(later, [](const auto& s) { return s.from >= kSettled; });
  if (later.begin() == settled) return false;
  const PositionStep &early = *std::max_element(later.begin(), settled, smaller),
                     &late = *std::ranges::max_element(later, smaller);
  if (!over(late, kAttentionKl, kAttentionLogRatio)) return false;
  if (!(zero->size <= kNothingBeside * late.size) || zero->kl > kNothingKl) return false;
  if (!(early.size >= kSomething * late.size)) return false;
  Suspicion& s = add_suspicion(out, Pattern::attention_scores, "from position 1 on");
  s.looks_like =
      "attention that weighs tokens differently: rotary base, scale or pairing, positions of queries and "
      "keys, "
      "the attention scale, a mask";
  s.because = fmt::format(
      "the mean drift is {} at position 0, where there is one token to attend to, and {} from position {} on",
      figure(zero->size), figure(late.size), late.from);
  s.next =
      "Compare the two kernels' settings of attention: rotary base, scaling and pairing of dimensions, "
      "attention "
      "scale, mask, position ids, the order of heads between queries and keys.";
  s.figures = {{"first", zero->size}, {"early", early.size}, {"largest", late.size}};
  return true;
}

void say_growth(const PositionStep& first, const PositionStep& last, std::int64_t where, bool sudden,
                Diagnosis& out) {
  Suspicion& s = add_suspicion(out, Pattern::grows_with_position, fmt::format("from position {} on", where));
  s.looks_like =
      sudden
          ? fmt::format(
                "a fault that begins near position {}: a window, a cache page or a table of positions that "
                "ends there",
                where)
          : "an error that accumulates along a sequence: the KV cache, its quantisation, or rotary positions";
  s.because = fmt::format("the mean drift rises from {} at position {} to {} from position {} on{}",
                          figure(first.size), first.from, figure(last.size), last.from,
                          sudden ? "" : ", never falling between");
  s.next =
      "Rescore a long sequence in one prefill and again token by token: if only the second drifts, look at "
      "the "
      "cache; if both do, at positions, their scaling and the attention window.";
  s.figures = {{"first", first.size}, {"last", last.size}, {"last_from", static_cast<double>(last.from)}};
}

bool look_for_growth(const Steps& all, double least, Diagnosis& out) {
  Steps steps = from(all, kSettled);
  if (steps.size() < kLeastBuckets) steps = from(all, 1);
  if (steps.size() < kLeastBuckets) return false;
  const PositionStep &first = steps.front(), &last = steps.back();
  if (!over(last, kAttentionKl, kAttentionLogRatio) || !(last.size >= least * first.size)) return false;
  std::size_t jump = 1;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (steps[i].size < kNoFall * steps[i - 1].size) return false;
    if (steps[i].size - steps[i - 1].size > steps[jump].size - steps[jump - 1].size) jump = i;
  }
  say_growth(first, last, steps[jump].from, steps[jump].size >= kSuddenly * steps[jump - 1].size, out);
  return true;
}

Steps known_steps(const gpu::MeasurementTable& table) {
  Steps steps = position_steps(table, kLeastFirstRows);
  std::erase_if(steps, [](const PositionStep& s) { return s.from > 0 && s.rows < kLeastBucketRows; });
  return steps;
}

}  // namespace

bool look_for_onset(const gpu::MeasurementTable& table, Diagnosis& out) {
  const Steps steps = from(known_steps(table), 1);
  for (std::size_t i = kLeastBuckets - 1; i < steps.size(); ++i) {
    if (!over(steps[i], kAttentionKl, kAttentionLogRatio)) continue;
    const auto later = steps.begin() + static_cast<std::ptrdiff_t>(i);
    const double before = std::max_element(steps.begin(), later, smaller)->size;
    if (!(before <= kNothingBeside * steps[i].size)) continue;
    if (!(std::min_element(later, steps.end(), smaller)->size > kSuddenly * before)) continue;
    say_growth(steps.front(), steps[i], steps[i].from, true, out);
    return true;
  }
  return false;
}

bool look_for_position(const gpu::MeasurementTable& table, const Scope& scope, Diagnosis& out) {
  const Steps steps = known_steps(table);
  // Sequences that stand out differ in length from the others, so that only a clear trace is their own.
  if (scope.part) return look_for_growth(steps, kSuddenly, out);
  return look_for_start(steps, out) || look_for_attention(steps, out) || look_for_growth(steps, kGrowth, out);
}

}  // namespace driftgate::stages
