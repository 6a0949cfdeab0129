#include "gpu/table/profile.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace driftgate::gpu {
namespace {

std::size_t position_bucket(std::int64_t position) {
  if (position <= 0) return 0;
  const auto bits = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(position)));
  return std::min(bits, kPositionBuckets - 1);
}

template <std::size_t N>
std::size_t bucket_of(const std::array<double, N>& edges, double value) {
  return static_cast<std::size_t>(std::ranges::upper_bound(edges, value) - edges.begin());
}

template <std::size_t N>
void merge_all(std::array<ProfileBucket, N>& into, const std::array<ProfileBucket, N>& other) {
  for (std::size_t i = 0; i < N; ++i) into[i].merge(other[i]);
}

/// A log-probability nearer to 0 is the small difference of two large numbers: in float32 it has few
/// significant bits, whichever kernel computed it.
constexpr double kLeastSignificant = 0.01;

bool rounded_to_bf16(double value) {
  return (std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0xFFFFU) == 0;
}

}  // namespace

void ProfileBucket::add(const ProfileRow& row) {
  if (!std::isnan(row.tv)) {
    ++rows;
    tv += row.tv;
    kl_inf_train += row.kl_inf_train;
    logit_rms += row.logit_rms;
    if (row.top1_flip > 0) ++top1_flips;
  }
  if (!std::isnan(row.log_ratio)) {
    ++tokens;
    abs_log_ratio += std::abs(row.log_ratio);
  }
}

void ProfileBucket::merge(const ProfileBucket& other) {
  rows += other.rows;
  tv += other.tv;
  kl_inf_train += other.kl_inf_train;
  logit_rms += other.logit_rms;
  top1_flips += other.top1_flips;
  tokens += other.tokens;
  abs_log_ratio += other.abs_log_ratio;
}

std::int64_t first_position(std::size_t bucket) {
  return bucket == 0 ? 0 : std::int64_t{1} << (bucket - 1);
}

void DriftProfile::add(const ProfileRow& row) {
  by_position[position_bucket(row.position)].add(row);
  if (!std::isnan(row.entropy_train)) by_entropy[bucket_of(kEntropyEdges, row.entropy_train)].add(row);
  const double p = std::isnan(row.logprob_train) ? row.top_train : std::exp(row.logprob_train);
  if (!std::isnan(p)) by_probability[bucket_of(kProbabilityEdges, p)].add(row);
}

void DriftProfile::merge(const DriftProfile& other) {
  merge_all(by_position, other.by_position);
  merge_all(by_entropy, other.by_entropy);
  merge_all(by_probability, other.by_probability);
}

void RowContrast::Shift::add(double train, double inf, double train_next, double inf_next) {
  const double sum = train + inf + train_next + inf_next;
  if (!std::isfinite(sum)) return;
  ++pairs;
  own += std::abs(inf - train);
  next += std::abs(inf - train_next);
  previous += std::abs(inf_next - train);
}

void RowContrast::Shift::merge(const Shift& other) {
  pairs += other.pairs;
  own += other.own;
  next += other.next;
  previous += other.previous;
}

void RowContrast::add(const ProfileRow& row) {
  if (!std::isnan(row.entropy_train) && !std::isnan(row.entropy_inf)) {
    ++rows;
    entropy_gap += std::abs(row.entropy_inf - row.entropy_train);
    if (row.entropy_inf > row.entropy_train) ++entropy_up;
  }
  if (std::isnan(row.log_ratio)) return;
  ++tokens;
  if (row.log_ratio < 0) ++inf_likelier;
  const auto look = [](double value, std::uint64_t& nonzero, std::uint64_t& bf16) {
    if (!(std::abs(value) >= kLeastSignificant) || !std::isfinite(value)) return;
    ++nonzero;
    if (rounded_to_bf16(value)) ++bf16;
  };
  look(row.logprob_train, nonzero_train, bf16_train);
  look(row.logprob_inf, nonzero_inf, bf16_inf);
}

void RowContrast::add_pair(const ProfileRow& row, const ProfileRow& after) {
  entropy.add(row.entropy_train, row.entropy_inf, after.entropy_train, after.entropy_inf);
  logprob.add(row.logprob_train, row.logprob_inf, after.logprob_train, after.logprob_inf);
}

void RowContrast::merge(const RowContrast& other) {
  rows += other.rows;
  entropy_gap += other.entropy_gap;
  entropy_up += other.entropy_up;
  entropy.merge(other.entropy);
  logprob.merge(other.logprob);
  tokens += other.tokens;
  inf_likelier += other.inf_likelier;
  nonzero_train += other.nonzero_train;
  nonzero_inf += other.nonzero_inf;
  bf16_train += other.bf16_train;
  bf16_inf += other.bf16_inf;
}

}  // namespace driftgate::gpu
