#include "gpu/table/summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace driftgate::gpu {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::array<double, 3> kBands = {0.001, 0.01, 0.05};
constexpr std::array<const char*, 3> kBandNames = {"0_1pct", "1pct", "5pct"};

using Rows = std::vector<const SequenceRow*>;

MetricSummary summarise_metric(const Rows& rows, std::size_t metric, const Histogram* histogram) {
  MetricSummary out{0, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN};
  Moments all;
  double sequence_sum = 0;
  std::uint64_t sequences = 0, rows_in_scope = 0;
  for (const SequenceRow* row : rows) {
    const Moments& moments = row->metrics[metric];
    rows_in_scope += row->rows;
    if (moments.n == 0) continue;
    all.merge(moments);
    sequence_sum += moments.mean();
    ++sequences;
  }
  out.n = all.n;
  if (all.n == 0) return out;
  out.min = all.min;
  out.max = all.max;
  if (all.n == rows_in_scope) {
    out.mean = all.mean();
    out.sequence_mean = sequence_sum / static_cast<double>(sequences);
  }
  if (histogram == nullptr) return out;
  const auto quantile = [&](double p) { return std::clamp(histogram->quantile(p), all.min, all.max); };
  out.p50 = quantile(0.5);
  out.p90 = quantile(0.9);
  out.p95 = quantile(0.95);
  out.p99 = quantile(0.99);
  out.p99_9 = quantile(0.999);
  return out;
}

void add(TargetTokenSums& into, const TargetTokenSums& other) {
  into.n += other.n;
  into.log_w += other.log_w;
  into.w += other.w;
  into.w_squares += other.w_squares;
  into.abs_w_minus_1 += other.abs_w_minus_1;
  into.k3 += other.k3;
  into.abs_log_w += other.abs_log_w;
  into.exp_abs_log_w += other.exp_abs_log_w;
  into.outside_clip += other.outside_clip;
  for (std::size_t i = 0; i < into.in_band.size(); ++i) into.in_band[i] += other.in_band[i];
  into.p += other.p;
  into.q += other.q;
  into.p_squares += other.p_squares;
  into.q_squares += other.q_squares;
  into.pq += other.pq;
}

/// Figures of whole sequences.
struct SequenceFigures {
  double n = 0, sum = 0, sum_squares = 0, min = 0, max = 0;  // of log W
  double chi2 = 0, tv = 0, ppl_diff = 0, ppl_min = 0, ppl_max = 0;
  std::array<double, 3> in_band{};

  void add(const TargetTokenSums& r) {
    const double ppl = (r.log_q - r.log_p) / static_cast<double>(r.n);
    const double excess = std::expm1(r.log_w);
    min = n == 0 ? r.log_w : std::min(min, r.log_w);
    max = n == 0 ? r.log_w : std::max(max, r.log_w);
    ppl_min = n == 0 ? ppl : std::min(ppl_min, ppl);
    ppl_max = n == 0 ? ppl : std::max(ppl_max, ppl);
    n += 1;
    sum += r.log_w;
    sum_squares += r.log_w * r.log_w;
    chi2 += excess * excess;
    tv += std::max(0.0, -excess);
    ppl_diff += ppl;
    for (std::size_t i = 0; i < kBands.size(); ++i) in_band[i] += std::abs(excess) <= kBands[i] ? 1 : 0;
  }
  [[nodiscard]] double variance() const {
    if (n < 2) return kNaN;
    return std::max(0.0, (sum_squares - sum * sum / n) / (n - 1));
  }
};

double pearson(const TargetTokenSums& r) {
  const auto n = static_cast<double>(r.n);
  const double covariance = n * r.pq - r.p * r.q;
  const double spread = (n * r.p_squares - r.p * r.p) * (n * r.q_squares - r.q * r.q);
  return spread > 0 ? std::clamp(covariance / std::sqrt(spread), -1.0, 1.0) : kNaN;
}

std::vector<DerivedSummary> derive(const MeasurementTable& table, const Rows& rows) {
  TargetTokenSums r;
  SequenceFigures s;
  for (const SequenceRow* row : rows) {
    if (row->target.n == 0) continue;
    add(r, row->target);
    s.add(row->target);
  }
  std::vector<DerivedSummary> out;
  if (r.n == 0) return out;
  const bool sampled = table.sampled_by_inf();
  const auto n = static_cast<double>(r.n);
  const auto put = [&](Metric metric, std::vector<std::pair<std::string, double>> figures) {
    out.push_back({metric, std::move(figures), schema::info(metric).needs_sampled_tokens && !sampled});
  };
  put(Metric::ratio_mean, {{"value", r.w / n}});
  put(Metric::tv_sampled, {{"value", r.abs_w_minus_1 / (2 * n)}});
  put(Metric::kl_inf_train_sampled, {{"value", r.k3 / n}});
  put(Metric::abs_log_ratio, {{"value", r.abs_log_w / n}});
  put(Metric::mult_prob_error, {{"value", r.exp_abs_log_w / n}});
  put(Metric::ess_fraction, {{"value", r.w * r.w / (n * r.w_squares)}});
  put(Metric::clip_budget_used, {{"value", static_cast<double>(r.outside_clip) / n}});
  put(Metric::chi2_sequence, {{"value", s.chi2 / s.n}, {"log_variance", s.variance()}});
  put(Metric::tv_sequence, {{"value", s.tv / s.n}});
  std::vector<std::pair<std::string, double>> bands;
  for (std::size_t i = 0; i < kBands.size(); ++i) {
    bands.emplace_back(std::string("tokens.") + kBandNames[i], static_cast<double>(r.in_band[i]) / n);
  }
  for (std::size_t i = 0; i < kBands.size(); ++i) {
    bands.emplace_back(std::string("sequences.") + kBandNames[i], s.in_band[i] / s.n);
  }
  put(Metric::band_retention, std::move(bands));
  put(Metric::log_ppl_diff, {{"value", s.ppl_diff / s.n}, {"min", s.ppl_min}, {"max", s.ppl_max}});
  put(Metric::sequence_log_ratio,
      {{"mean", s.sum / s.n}, {"min", s.min}, {"max", s.max}, {"token_mean", r.log_w / n}});
  put(Metric::prob_pearson, {{"value", pearson(r)}});
  return out;
}

}  // namespace

Summary summarise(const MeasurementTable& table, const SliceAttributes& where) {
  Summary out;
  out.where = where;
  Rows rows;
  for (std::size_t i = 0; i < table.sequences.size(); ++i) {
    if (!in_slice(table.infos[i], where)) continue;
    const SequenceRow& row = table.sequences[i];
    rows.push_back(&row);
    out.rows += row.rows;
    const auto bounded = table.bounded(Metric::tv);
    const Moments& finite = bounded ? row.bounds->metrics[*bounded].lower
                                    : row.metrics[static_cast<std::size_t>(Metric::tv)];
    const Moments& counted = row.metrics[static_cast<std::size_t>(Metric::nonfinite)];
    if (counted.n > finite.n) out.nonfinite_rows += counted.n - finite.n;
  }
  out.sequences = rows.size();
  const auto slice = std::ranges::find(table.slices, where, &SliceHistograms::where);
  for (std::size_t metric = 0; metric < kRowMetricCount; ++metric) {
    const Histogram* histogram = slice == table.slices.end() ? nullptr : &slice->histograms[metric];
    out.metrics[metric] = summarise_metric(rows, metric, histogram);
  }
  summarise_bounds(table, rows, out);
  out.derived = derive(table, rows);
  return out;
}

}  // namespace driftgate::gpu
