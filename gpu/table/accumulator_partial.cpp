#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/cpu/row_engine.hpp"
#include "gpu/table/accumulator.hpp"

namespace driftgate::gpu {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr std::size_t index_of(Metric metric) {
  return static_cast<std::size_t>(metric);
}

/// The exact figures of the row, in the form that an engine returns.
driftgate_row exact_figures(const PartialRow& row, std::uint64_t nonfinite) {
  driftgate_row out{};
  std::ranges::fill(out.values, kNaN);
  out.head_tail_tv = kNaN;
  out.top_train = row.top_train.value_or(kNaN);
  out.top_inf = row.top_inf.value_or(kNaN);
  out.values[index_of(Metric::nonfinite)] = static_cast<double>(nonfinite);
  if (nonfinite > 0) {
    out.top_train = out.top_inf = kNaN;
    return out;
  }
  out.values[index_of(Metric::logprob_train)] = row.logprob_train.value_or(kNaN);
  out.values[index_of(Metric::logprob_inf)] = row.logprob_inf.value_or(kNaN);
  if (row.logprob_train && row.logprob_inf) {
    out.values[index_of(Metric::log_ratio)] = *row.logprob_train - *row.logprob_inf;
  }
  return out;
}

}  // namespace

void Accumulator::add_partial(std::int64_t position, std::int64_t token, const PartialRow& row,
                              std::uint64_t nonfinite) {
  const std::uint64_t index = next_row_;
  const driftgate_row exact = exact_figures(row, nonfinite);
  add_exact(position, exact);
  SequenceRow& sequence = table_.sequences[sequence_of_row_[index]];
  WorstRow worst{index, sequence.sequence, position, token, {}, kNaN, kNaN, {}};
  std::ranges::copy(exact.values, worst.values.begin());
  for (const Metric metric : table_.partial.metrics) {
    const Interval& bounds = row.bounds[index_of(metric)];
    if (nonfinite == 0) worst.values[index_of(metric)] = bounds.lower;
    worst.upper.push_back(nonfinite == 0 ? bounds.upper : kNaN);
  }
  if (nonfinite == 0) {
    add_bounds(sequence, row);
    if (row.unknown) ++table_.partial.unknown_rows;
    if (row.kl_estimate && row.logprob_train && row.logprob_inf) {
      sequence.target.k3 += *row.kl_estimate - cpu::phi(*row.logprob_train - *row.logprob_inf);
    }
  }
  add_profile(sequence_of_row_[index], profile_row(position, exact), std::move(worst));
}

void Accumulator::add_bounds(SequenceRow& sequence, const PartialRow& row) const {
  SequenceBounds& bounds = *sequence.bounds;
  bounds.tail_train.add(row.tail_train);
  bounds.tail_inf.add(row.tail_inf);
  for (std::size_t i = 0; i < table_.partial.metrics.size(); ++i) {
    const Interval& range = row.bounds[index_of(table_.partial.metrics[i])];
    bounds.metrics[i].lower.add(range.lower);
    bounds.metrics[i].upper.add(range.upper);
  }
  for (std::size_t i = 0; i < table_.thresholds.size(); ++i) {
    const Threshold& threshold = table_.thresholds[i];
    if (!table_.bounded(threshold.metric)) continue;
    const Interval& range = row.bounds[index_of(threshold.metric)];
    const bool surely = threshold.above ? range.lower > threshold.value : range.upper < threshold.value;
    const bool maybe = threshold.above ? range.upper > threshold.value : range.lower < threshold.value;
    if (surely) ++sequence.beyond[i];
    if (maybe) ++bounds.maybe_beyond[i];
  }
}

}  // namespace driftgate::gpu
