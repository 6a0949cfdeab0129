#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stages/diagnosis/diagnosis_scope.hpp"
#include "stages/report/wording.hpp"

// Patterns of columns and of target tokens. Every threshold here is judgement (tests/diagnosis).

namespace driftgate::stages {
namespace {

using schema::Metric;

/// Entries of tokens that were there before, how many times the drift of the others theirs is, and the share
/// of them that moves one way.
constexpr std::uint64_t kLeastBefore = 200;
constexpr double kPenalised = 3, kOneWay = 0.95, kLeastPenalty = 0.01;

/// How many times the drift of the quiet quarter of the blocks that of a range is, and what it is at least,
/// in nats. Rounding alone gives tokens that a model uses 16 times the drift of those that it never does
/// (int8 of tests/vectors).
constexpr double kLoudBlock = 40, kLeastOffset = 0.02;
constexpr std::size_t kLeastBlocks = 4, kGap = 1;
constexpr double kLargestRange = 0.75, kLoudInside = 0.9, kLoudOutside = 0.05;

/// The gain of K_inf on the target tokens: what it is at least in nats and as a part of kl_inf_train, and the
/// share of sequences that have it.
constexpr double kLeastGain = 0.01, kGainOfKl = 0.4, kGaining = 0.9;
constexpr std::uint64_t kLeastTokens = 100, kLeastSequences = 10;
/// The part of the expected loss that is missing, its standard errors, and the kl_train_inf from which it
/// counts.
constexpr double kKnowledge = 0.7, kLeastErrors = 4, kLeastKnownKl = 1e-3;

double mean(const gpu::OffsetSums& sums) {
  return sums.n == 0 ? 0 : sums.sum / static_cast<double>(sums.n);
}
double size(const gpu::OffsetSums& sums) {
  return sums.n == 0 ? 0 : std::sqrt(sums.squares / static_cast<double>(sums.n));
}

bool look_for_penalty(const gpu::ColumnContrast& columns, Diagnosis& out) {
  const gpu::OffsetSums& before = columns.before;
  if (before.n < kLeastBefore || !(std::abs(mean(before)) > kLeastPenalty)) return false;
  if (!(size(before) > kPenalised * size(columns.others))) return false;
  const double above = static_cast<double>(before.above) / static_cast<double>(before.n);
  const bool less = above >= kOneWay;
  if (!less && above > 1 - kOneWay) return false;
  Suspicion& s = add_suspicion(out, Pattern::penalty, "all sequences");
  s.looks_like = fmt::format("a penalty {} tokens that were there before (repetition, presence or frequency)",
                             less ? "on" : "of K_train on");
  s.because = fmt::format(
      "K_inf's logits of tokens from earlier in the sequence are {} by {} nats on average, in {} of {} "
      "cases, "
      "and those of other tokens differ by {} (root mean square)",
      less ? "lower" : "higher", figure(std::abs(mean(before))), percent(less ? above : 1 - above),
      count_text(before.n), figure(size(columns.others)));
  s.next =
      "Capture raw logits, before processors and penalties, and set the engine's penalties to their neutral "
      "values; defaults of a served model may set them.";
  s.figures = {
      {"offset_before", mean(before)}, {"rms_before", size(before)}, {"rms_others", size(columns.others)}};
  return true;
}

struct Run {
  std::size_t first = 0, end = 0, loud = 0;  ///< blocks; loud: of those in it
};

/// The run of blocks with most loud ones in it, with single gaps.
Run longest_run(const std::vector<bool>& loud) {
  Run best, now;
  for (std::size_t i = 0; i < loud.size(); ++i) {
    if (!loud[i]) continue;
    if (now.loud == 0 || i > now.end + kGap) now = {i, i, 0};
    now.end = i + 1;
    ++now.loud;
    if (now.loud > best.loud) best = now;
  }
  return best;
}

bool look_for_range(const gpu::MeasurementTable& table, Diagnosis& out) {
  const auto& blocks = table.columns->blocks;
  std::vector<double> sizes;
  for (const gpu::OffsetSums& block : blocks) sizes.push_back(size(block));
  std::vector<double> sorted = sizes;
  const auto quiet = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 4);
  std::ranges::nth_element(sorted, quiet);
  std::vector<bool> loud;
  for (const double x : sizes) loud.push_back(x > std::max(kLoudBlock * *quiet, kLeastOffset));
  const Run run = longest_run(loud);
  const auto length = static_cast<double>(run.end - run.first), all = static_cast<double>(blocks.size());
  if (run.loud < kLeastBlocks || length > kLargestRange * all) return false;
  if (static_cast<double>(run.loud) < kLoudInside * length) return false;
  const auto outside = static_cast<double>(std::ranges::count(loud, true)) - static_cast<double>(run.loud);
  if (outside > kLoudOutside * (all - length)) return false;
  gpu::OffsetSums inside;
  for (std::size_t i = run.first; i < run.end; ++i) {
    inside.n += blocks[i].n;
    inside.sum += blocks[i].sum;
    inside.squares += blocks[i].squares;
  }
  const std::uint64_t first = run.first * std::uint64_t{table.columns->block_columns};
  const std::uint64_t last =
      std::min<std::uint64_t>(run.end * std::uint64_t{table.columns->block_columns}, table.vocabulary) - 1;
  Suspicion& s = add_suspicion(out, Pattern::column_range, fmt::format("tokens {} to {}", first, last));
  s.looks_like = fmt::format("a part of the head that is wrong: the columns near {} to {}", first, last);
  s.because = fmt::format(
      "the logits of these tokens differ by {} nats from the drift of the others (root mean square), and "
      "those of a "
      "quarter of the vocabulary by at most {}",
      figure(size(inside)), figure(*quiet));
  s.next =
      "Compare the head's shards, their order, scales and biases, and the rows of the checkpoint at these "
      "ids; a "
      "shard that was not loaded gives zeros.";
  s.figures = {{"first_token", static_cast<double>(first)},
               {"last_token", static_cast<double>(last)},
               {"rms_inside", size(inside)},
               {"rms_quiet", *quiet}};
  return true;
}

/// What K_inf has over K_train on the target tokens, in nats. If tokens follow p, a kernel that does not know
/// them loses KL(p‖q) on average.
struct TargetGain {
  bool known = false;
  std::uint64_t tokens = 0;
  double mean = 0, gaining = 0;  ///< gaining: the share of sequences with a gain
  double kl_train_inf = 0, kl_inf_train = 0;
  double errors = 0;  ///< mean + kl_train_inf in standard errors, over sequences
};

TargetGain gain_of(const gpu::MeasurementTable& table) {
  TargetGain out;
  // Of its own samples K_inf knows the tokens, in a way: it has KL(q‖p) over K_train on them.
  if (!table.has_tokens || table.sampled_by_inf() || !table.partial.mode.empty()) return out;
  const auto sum = [](const gpu::SequenceRow& row, Metric metric) {
    return row.metrics[static_cast<std::size_t>(metric)].sum;
  };
  gpu::Moments beyond;  // by sequence
  double gaining = 0;
  for (const gpu::SequenceRow& row : table.sequences) {
    // Without all figures of its rows a sequence says nothing.
    if (row.target.n == 0 || row.metrics[static_cast<std::size_t>(Metric::kl_train_inf)].n != row.target.n)
      continue;
    out.tokens += row.target.n;
    out.mean -= row.target.log_w;
    out.kl_train_inf += sum(row, Metric::kl_train_inf);
    out.kl_inf_train += sum(row, Metric::kl_inf_train);
    gaining += row.target.log_w < 0 ? 1 : 0;
    beyond.add(sum(row, Metric::kl_train_inf) - row.target.log_w);
  }
  if (out.tokens < kLeastTokens || beyond.n < kLeastSequences) return out;
  const auto n = static_cast<double>(out.tokens), sequences = static_cast<double>(beyond.n);
  out.mean /= n, out.kl_train_inf /= n, out.kl_inf_train /= n;
  out.gaining = gaining / sequences;
  const double variance = beyond.sum_squares / sequences - beyond.mean() * beyond.mean();
  out.errors = beyond.mean() / std::sqrt(std::max(variance, 1e-300) / sequences);
  out.known = true;
  return out;
}

void add_leak(const TargetGain& gain, Diagnosis& out) {
  Suspicion& s = add_suspicion(out, Pattern::leaks_target, "all sequences");
  s.looks_like =
      "a kernel that sees the token which it is to predict: an attention mask that lets a later position "
      "through";
  s.because = fmt::format(
      "K_inf gives the {} target tokens {} nats {} than K_train on average, while kl_train_inf is {} and "
      "kl_inf_train "
      "{}: a kernel that did not know the tokens would lose kl_train_inf on them ({} standard errors)",
      count_text(gain.tokens), figure(std::abs(gain.mean)), gain.mean < 0 ? "less" : "more",
      figure(gain.kl_train_inf), figure(gain.kl_inf_train), figure(gain.errors));
  s.next =
      "Capture some sequences again, cut after each of several positions: a row must not change when what "
      "follows "
      "it is cut off. If none does, K_train's weights are the worse ones: compare the checkpoints.";
  s.figures = {{"gain", gain.mean},
               {"kl_train_inf", gain.kl_train_inf},
               {"kl_inf_train", gain.kl_inf_train},
               {"standard_errors", gain.errors}};
}

}  // namespace

bool look_for_columns(const gpu::MeasurementTable& table, Diagnosis& out) {
  if (!table.columns) return false;
  return look_for_penalty(*table.columns, out) || look_for_range(table, out);
}

bool look_for_leak(const gpu::MeasurementTable& table, Diagnosis& out) {
  const TargetGain gain = gain_of(table);
  if (!gain.known || !(gain.mean > std::max(kLeastGain, kGainOfKl * gain.kl_inf_train))) return false;
  if (gain.gaining < kGaining) return false;
  add_leak(gain, out);
  return true;
}

void look_for_knowledge(const gpu::MeasurementTable& table, Diagnosis& out) {
  const TargetGain gain = gain_of(table);
  if (!gain.known || !(gain.kl_train_inf > kLeastKnownKl)) return;
  const bool knows = gain.mean + gain.kl_train_inf > kKnowledge * gain.kl_train_inf;
  if (knows && gain.errors > kLeastErrors) add_leak(gain, out);
}

}  // namespace driftgate::stages
