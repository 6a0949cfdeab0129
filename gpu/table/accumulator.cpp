#include "gpu/table/accumulator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "gpu/cpu/row_engine.hpp"
#include "gpu/table/measurement_merge.hpp"

namespace driftgate::gpu {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::array<double, 3> kBands = {0.001, 0.01, 0.05};

constexpr std::size_t index_of(Metric metric) {
  return static_cast<std::size_t>(metric);
}

}  // namespace

ProfileRow profile_row(std::int64_t position, const driftgate_row& row) {
  const auto value = [&row](Metric metric) { return row.values[index_of(metric)]; };
  return {.position = position,
          .tv = value(Metric::tv),
          .kl_inf_train = value(Metric::kl_inf_train),
          .logit_rms = value(Metric::logit_rms),
          .top1_flip = value(Metric::top1_flip),
          .entropy_train = value(Metric::entropy_train),
          .entropy_inf = value(Metric::entropy_inf),
          .top_train = row.top_train,
          .logprob_train = value(Metric::logprob_train),
          .logprob_inf = value(Metric::logprob_inf),
          .log_ratio = value(Metric::log_ratio)};
}

Accumulator::Accumulator(MeasurementTable table, std::span<const std::int64_t> sequence_ids)
    : table_(std::move(table)) {
  std::unordered_map<std::int64_t, std::uint32_t> known;
  sequence_of_row_.reserve(sequence_ids.size());
  for (const std::int64_t id : sequence_ids) {
    const auto [found, added] = known.emplace(id, static_cast<std::uint32_t>(table_.sequences.size()));
    if (added) {
      SequenceRow& row = table_.sequences.emplace_back();
      row.sequence = id;
      row.beyond.assign(table_.thresholds.size(), 0);
      if (!table_.partial.mode.empty()) {
        SequenceBounds& bounds = row.bounds.emplace();
        bounds.metrics.resize(table_.partial.metrics.size());
        bounds.maybe_beyond.assign(table_.thresholds.size(), 0);
      }
      table_.infos.emplace_back().sequence = id;
    }
    sequence_of_row_.push_back(found->second);
  }
  last_position_.assign(table_.sequences.size(), std::numeric_limits<std::int64_t>::min());
  set_slices({});
}

void Accumulator::set_slices(const std::vector<SliceAttributes>& slices) {
  table_.slices.assign(1, {});
  for (const SliceAttributes& where : slices) {
    if (!where.empty()) table_.slices.emplace_back().where = where;
  }
  builders_.assign(table_.slices.size(), {});
  slices_of_sequence_.assign(table_.sequences.size(), {});
  for (std::size_t sequence = 0; sequence < table_.infos.size(); ++sequence) {
    for (std::uint32_t slice = 0; slice < table_.slices.size(); ++slice) {
      if (in_slice(table_.infos[sequence], table_.slices[slice].where)) {
        slices_of_sequence_[sequence].push_back(slice);
      }
    }
  }
}

void Accumulator::add(std::int64_t position, std::int64_t token, const driftgate_row& figures) {
  const std::uint64_t index = next_row_;
  add_exact(position, figures);
  const std::uint32_t at = sequence_of_row_[index];
  WorstRow row{index, table_.sequences[at].sequence, position, token, {}, kNaN, kNaN, {}};
  std::ranges::copy(figures.values, row.values.begin());
  add_profile(at, profile_row(position, figures), std::move(row));
}

void Accumulator::add_exact(std::int64_t position, const driftgate_row& figures) {
  const auto& values = figures.values;
  const std::uint32_t at = sequence_of_row_[next_row_++];
  SequenceRow& sequence = table_.sequences[at];
  ++sequence.rows;
  ++table_.rows;
  for (std::size_t metric = 0; metric < kRowMetricCount; ++metric) {
    const double value = values[metric];
    if (std::isnan(value)) continue;
    sequence.metrics[metric].add(value);
    const HistogramBin bin = histogram_bin(value);
    for (const std::uint32_t slice : slices_of_sequence_[at]) builders_[slice][metric].add(bin);
  }
  if (!std::isnan(figures.head_tail_tv)) sequence.head_tail_tv.add(figures.head_tail_tv);
  if (position >= last_position_[at]) {
    last_position_[at] = position;
    const bool known = !std::isnan(figures.top_train) && !std::isnan(figures.top_inf);
    sequence.top_train = known ? std::optional(figures.top_train) : std::nullopt;
    sequence.top_inf = known ? std::optional(figures.top_inf) : std::nullopt;
  }
  for (std::size_t i = 0; i < table_.thresholds.size(); ++i) {
    const Threshold& threshold = table_.thresholds[i];
    const double value = values[index_of(threshold.metric)];
    if (threshold.above ? value > threshold.value : value < threshold.value) ++sequence.beyond[i];
  }
  const double log_w = values[index_of(Metric::log_ratio)];
  if (!std::isnan(log_w)) {
    add_target_token(sequence.target, values[index_of(Metric::logprob_train)],
                     values[index_of(Metric::logprob_inf)], log_w);
  }
  if (values[index_of(Metric::nonfinite)] > 0) ++table_.nonfinite_rows;
}

void Accumulator::add_profile(std::uint32_t sequence, const ProfileRow& figures, WorstRow row) {
  table_.profile.add(figures);
  RowContrast& contrast = table_.sequences[sequence].contrast;
  contrast.add(figures);
  if (pending_ && pending_->sequence == sequence) {
    contrast.add_pair(pending_->figures, figures);
    row.kl_before = pending_->figures.kl_inf_train;
    pending_->worst.kl_after = figures.kl_inf_train;
  }
  flush_pending();
  pending_ = Pending{sequence, figures, std::move(row)};
}

void Accumulator::flush_pending() {
  if (pending_ && top_rows_ > 0) offer_worst(std::move(pending_->worst));
  pending_.reset();
}

void Accumulator::offer_worst(WorstRow row) {
  auto& kept = table_.worst_rows;
  if (kept.size() == top_rows_ && !worse(row, kept.back())) return;
  if (kept.size() == top_rows_) kept.pop_back();
  kept.insert(std::ranges::upper_bound(kept, row, worse), std::move(row));
}

void Accumulator::add_target_token(TargetTokenSums& sums, double log_p, double log_q, double log_w) const {
  const double excess = std::expm1(log_w);  // w − 1
  const double size = std::abs(excess);
  const double w = std::exp(log_w);
  sums.min_log_q = sums.n == 0 ? log_q : std::min(sums.min_log_q, log_q);
  ++sums.n;
  sums.log_w += log_w;
  sums.w += w;
  sums.w_squares += w * w;
  sums.abs_w_minus_1 += size;
  sums.k3 += cpu::phi(log_w);
  sums.abs_log_w += std::abs(log_w);
  sums.exp_abs_log_w += std::exp(std::abs(log_w));
  sums.log_p += log_p;
  sums.log_q += log_q;
  if (size > table_.ppo_clip) ++sums.outside_clip;
  for (std::size_t band = 0; band < kBands.size(); ++band) {
    if (size <= kBands[band]) ++sums.in_band[band];
  }
  const double p = std::exp(log_p);
  const double q = std::exp(log_q);
  sums.p += p;
  sums.q += q;
  sums.p_squares += p * p;
  sums.q_squares += q * q;
  sums.pq += p * q;
  if (table_.is_clip) sums.excess_is_clip += std::max(0.0, size - *table_.is_clip);
}

MeasurementTable Accumulator::finish() {
  flush_pending();
  for (std::size_t slice = 0; slice < builders_.size(); ++slice) {
    for (std::size_t metric = 0; metric < kRowMetricCount; ++metric) {
      table_.slices[slice].histograms[metric] = builders_[slice][metric].build();
    }
  }
  return std::move(table_);
}

}  // namespace driftgate::gpu
