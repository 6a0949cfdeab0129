#include <algorithm>
#include <limits>

#include "gpu/table/summary.hpp"

namespace driftgate::gpu {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Mean of the sequences' means of one side of the bounds.
struct SequenceMeans {
  double lower = 0, upper = 0;
  std::uint64_t n = 0;
};

BoundSummary summarise_bound(Metric metric, std::size_t index, const std::vector<const SequenceRow*>& rows) {
  BoundSummary out{metric, 0, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN};
  BoundMoments all;
  SequenceMeans means;
  std::uint64_t rows_in_scope = 0;
  for (const SequenceRow* row : rows) {
    rows_in_scope += row->rows;
    const BoundMoments& part = row->bounds->metrics[index];
    if (part.lower.n == 0) continue;
    all.lower.merge(part.lower);
    all.upper.merge(part.upper);
    means.lower += part.lower.mean();
    means.upper += part.upper.mean();
    ++means.n;
  }
  out.n = all.lower.n;
  if (out.n == 0) return out;
  out.min_lower = all.lower.min;
  out.min_upper = all.upper.min;
  out.max_lower = all.lower.max;
  out.max_upper = all.upper.max;
  if (out.n != rows_in_scope) return out;
  out.mean_lower = all.lower.mean();
  out.mean_upper = all.upper.mean();
  out.sequence_mean_lower = means.lower / static_cast<double>(means.n);
  out.sequence_mean_upper = means.upper / static_cast<double>(means.n);
  return out;
}

}  // namespace

void summarise_bounds(const MeasurementTable& table, const std::vector<const SequenceRow*>& rows,
                      Summary& out) {
  out.tail_train = out.tail_inf = kNaN;
  if (table.partial.mode.empty()) return;
  Moments train, inf;
  for (const SequenceRow* row : rows) {
    if (row->bounds->tail_train.n == 0) continue;
    train.merge(row->bounds->tail_train);
    inf.merge(row->bounds->tail_inf);
  }
  if (train.n > 0) {
    out.tail_train = train.mean();
    out.tail_inf = inf.mean();
  }
  for (std::size_t i = 0; i < table.partial.metrics.size(); ++i) {
    out.bounds.push_back(summarise_bound(table.partial.metrics[i], i, rows));
  }
}

}  // namespace driftgate::gpu
