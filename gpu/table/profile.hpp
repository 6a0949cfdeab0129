#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace driftgate::gpu {

/// The figures of a row that the profile uses; NaN where there is none.
struct ProfileRow {
  std::int64_t position = 0;
  double tv = 0, kl_inf_train = 0, logit_rms = 0, top1_flip = 0;
  double entropy_train = 0, entropy_inf = 0, top_train = 0;
  double logprob_train = 0, logprob_inf = 0, log_ratio = 0;
};

/// Drift of the rows in one bucket. Counts and sums, so that buckets merge by addition.
struct ProfileBucket {
  std::uint64_t rows = 0;  ///< rows with full logits
  double tv = 0, kl_inf_train = 0, logit_rms = 0;
  std::uint64_t top1_flips = 0;
  std::uint64_t tokens = 0;  ///< rows with a target token that both kernels scored
  double abs_log_ratio = 0;
  void add(const ProfileRow& row);
  void merge(const ProfileBucket& other);
};

/// Edges of the buckets by the entropy of K_train, in nats: [0, e_1), [e_1, e_2), …, [e_last, ∞).
inline constexpr std::array<double, 8> kEntropyEdges = {0.01, 0.1, 0.5, 1, 2, 3, 4, 6};
/// Edges of the buckets by the probability under K_train of the target token, or of the most likely token
/// where no target token is known.
inline constexpr std::array<double, 8> kProbabilityEdges = {1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 0.9, 0.99};
/// Number of buckets by position: 0, 1, 2 to 3, 4 to 7, …; the last one takes all larger positions.
inline constexpr std::size_t kPositionBuckets = 24;

/// Drift by position, by entropy and by probability. Of fixed size; merged in rank order.
struct DriftProfile {
  std::array<ProfileBucket, kPositionBuckets> by_position;
  std::array<ProfileBucket, kEntropyEdges.size() + 1> by_entropy;
  std::array<ProfileBucket, kProbabilityEdges.size() + 1> by_probability;
  void add(const ProfileRow& row);
  void merge(const DriftProfile& other);
};

/// First position of a bucket of `by_position`.
[[nodiscard]] std::int64_t first_position(std::size_t bucket);

/// Compares the rows of one sequence with each other and with their neighbours, to recognise faults of
/// alignment, order and number format. `own`, `next` and `previous` are sums over adjacent rows t, t + 1 of
/// |inf_t − train_t|, |inf_t − train_{t+1}| and |inf_{t+1} − train_t|.
struct RowContrast {
  struct Shift {
    std::uint64_t pairs = 0;
    double own = 0, next = 0, previous = 0;
    void add(double train, double inf, double train_next, double inf_next);
    void merge(const Shift& other);
  };
  std::uint64_t rows = 0;        ///< with full logits
  double entropy_gap = 0;        ///< Σ abs(entropy_inf − entropy_train)
  std::uint64_t entropy_up = 0;  ///< rows with entropy_inf > entropy_train
  Shift entropy, logprob;
  std::uint64_t tokens = 0;        ///< target tokens
  std::uint64_t inf_likelier = 0;  ///< those with log_ratio < 0
  /// Target tokens whose log-probability is at most −0.01, and the number of these whose float32 value has 16
  /// low bits of zero, as after rounding to bf16; one in 65,536 has them by chance.
  std::uint64_t nonzero_train = 0, nonzero_inf = 0, bf16_train = 0, bf16_inf = 0;
  void add(const ProfileRow& row);
  /// `row` and the one after it in the same sequence.
  void add_pair(const ProfileRow& row, const ProfileRow& next);
  void merge(const RowContrast& other);
};

}  // namespace driftgate::gpu
