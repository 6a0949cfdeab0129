#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/table/profile.hpp"
#include "schema/error.hpp"
#include "schema/metrics.hpp"

namespace driftgate::gpu {

using schema::kRowMetricCount;
using schema::Metric;

/// Mergeable figures of one metric over some rows. Merged in rank order.
struct Moments {
  std::uint64_t n = 0;
  double sum = 0, sum_squares = 0;
  double min = 0, max = 0;  ///< meaningless while n == 0
  void add(double value);
  void merge(const Moments& other);
  [[nodiscard]] double mean() const;
};

/// A threshold beyond which rows are counted for quantile clauses (docs/design/statistics.md, "Quantiles").
struct Threshold {
  Metric metric{};
  double value = 0;
  bool above = true;  ///< count rows with metric > value; else metric < value
  bool operator==(const Threshold&) const = default;
};

/// Realised-token sums of one sequence (docs/design/measurement.md, "Figures of target tokens").
/// `w = exp(log_ratio)`.
struct RealisedSums {
  std::uint64_t n = 0;
  double log_w = 0, w = 0, w_squares = 0;
  double abs_w_minus_1 = 0;          ///< Σ|w − 1|
  double k3 = 0;                     ///< Σ(w − 1 − log w)
  double abs_log_w = 0, exp_abs_log_w = 0;
  double log_p = 0, log_q = 0;       ///< Σ log p_a, Σ log q_a
  std::uint64_t outside_clip = 0;    ///< w outside [1 − c, 1 + c]
  std::array<std::uint64_t, 3> in_band{};  ///< |w − 1| ≤ 0.1%, 1%, 5%
  double p = 0, q = 0, p_squares = 0, q_squares = 0, pq = 0;  ///< for prob_pearson
  double excess_is_clip = 0;         ///< Σ(|w − 1| − is_clip)⁺, link 5
  double min_log_q = 0;
};

/// Bounds of one metric over some rows: figures of every row's lower and of its upper bound. An upper bound
/// that does not exist is infinite.
struct BoundMoments {
  Moments lower, upper;
};

/// What one sequence adds where only a part of each distribution is known (docs/design/measurement.md,
/// "Bounds").
struct SequenceBounds {
  std::vector<BoundMoments> metrics;        ///< by index of PartialInfo::metrics
  /// Rows that may be beyond each threshold, by their worse bound; SequenceRow::beyond counts those that
  /// certainly are.
  std::vector<std::uint32_t> maybe_beyond;
  Moments tail_train, tail_inf;  ///< mass outside the tokens that both kernels named
};

/// Something about the captures that a person must know (docs/design/measurement.md, "Checks of captures").
struct CaptureFinding {
  std::string name;  ///< "rounded_to_bf16", "positive_logprobs", "off_by_one" …
  std::string side;  ///< "train", "inf" or "both"
  bool decides = false;  ///< the figures mean nothing: every clause over them is an error
  std::uint64_t count = 0, of = 0;
  std::string text;  ///< one sentence
};

/// What is known of the distributions of a table that was not measured on full logits.
struct PartialInfo {
  std::string mode;  ///< "topk", "matched", "realised"; empty = all of each distribution was known
  std::uint32_t listed = 0;  ///< K, the longest list of the two captures
  std::vector<Metric> metrics;  ///< their figures are bounds, and `SequenceRow::metrics` has none of them
  std::uint64_t unknown_rows = 0;  ///< rows of which the kernels named no token in common
  std::vector<CaptureFinding> findings;
};

/// Everything known of one sequence: the cluster of the statistics.
struct SequenceRow {
  std::int64_t sequence = 0;
  std::uint32_t rows = 0;
  std::array<Moments, kRowMetricCount> metrics;
  Moments head_tail_tv;  ///< link 2 of the bound chain: an upper bound of each row's tv
  std::vector<std::uint32_t> beyond;  ///< by index of MeasurementTable::thresholds
  RealisedSums realised;
  /// Probability of each kernel's most likely token at the sequence's last captured position; absent where
  /// that row has no full logits or is not finite.
  std::optional<double> top_train, top_inf;
  RowContrast contrast;
  std::optional<SequenceBounds> bounds;  ///< present where PartialInfo::mode is set
};

/// What the corpus says of a sequence. Absent attributes stay absent ("missing is its own value").
struct SequenceInfo {
  std::int64_t sequence = 0;
  std::string id;
  std::map<std::string, std::string> slices;
  std::optional<double> reward, advantage;
  std::optional<bool> correct_train, correct_inf;
  std::optional<double> confidence_train, confidence_inf;
  std::string cluster;  ///< empty = the sequence itself
};

/// A row worth a look: where it is, and all its figures.
struct WorstRow {
  std::uint64_t row = 0;
  std::int64_t sequence = 0, position = 0, token = -1;
  std::array<double, kRowMetricCount> values{};  ///< of bounded metrics the lower bounds
  /// kl_inf_train of the rows before and after it; NaN where that is another sequence's or has no figure.
  double kl_before = std::numeric_limits<double>::quiet_NaN();
  double kl_after = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> upper;                      ///< by index of PartialInfo::metrics
};

/// Log-binned histogram with relative accuracy 1% (Masson et al., DDSketch, VLDB 2019), mirrored for
/// negative values, with a zero bin. Merges by addition. For display only (docs/design/statistics.md,
/// "Quantiles").
struct Histogram {
  std::map<std::int32_t, std::uint64_t> positive, negative;
  std::uint64_t zero = 0, overflow = 0, underflow = 0;
  void add(double value);
  void merge(const Histogram& other);
  [[nodiscard]] std::uint64_t count() const;
  /// Smallest value of rank ≥ ⌈pn⌉, within 1%; NaN when empty.
  [[nodiscard]] double quantile(double p) const;
};

/// One slice of the table: the rows of all sequences that match `where` (empty = corpus).
struct SliceHistograms {
  std::map<std::string, std::string> where;
  std::array<Histogram, kRowMetricCount> histograms;
};

struct CaptureIdentity {
  std::string kernel, checkpoint_digest, corpus_digest, token_source, sampling_filter;
  double temperature = 1;
  std::string file_digest;  ///< "sha256:…" over the capture's files; empty when not asked for
};

/// The engine's result (docs/design/measurement.md, "The measurement table"). Stages see only this; its bytes
/// are a blob whose digest stands in each verdict's evidence.
struct MeasurementTable {
  CaptureIdentity train, inf;
  std::uint64_t rows = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t top_k = 10;
  double ppo_clip = 0.2;
  std::optional<double> is_clip;
  bool has_tokens = false;            ///< realised-token figures are present
  std::vector<Threshold> thresholds;
  std::vector<SequenceRow> sequences;  ///< by first appearance
  std::vector<SequenceInfo> infos;     ///< parallel to `sequences`; empty attributes without a corpus
  std::vector<SliceHistograms> slices;  ///< [0] is the corpus
  std::vector<WorstRow> worst_rows;     ///< by kl_inf_train, worst first; nonfinite rows before all
  std::uint64_t nonfinite_rows = 0;
  DriftProfile profile;
  PartialInfo partial;
  /// Rows that were measured on the CPU because the device could not have their figures; absent where no
  /// device measured.
  std::optional<std::uint64_t> rows_on_cpu;

  /// Index of a metric whose figures are bounds; nothing where they are exact.
  [[nodiscard]] std::optional<std::size_t> bounded(Metric metric) const;
  /// The tokens were sampled by K_inf itself, without filters († figures estimate what they say).
  [[nodiscard]] bool sampled_by_inf() const;
};

/// Canonical bytes (little-endian, versioned) and back. Equal tables give equal bytes.
[[nodiscard]] std::string serialise(const MeasurementTable& table);
[[nodiscard]] schema::Result<MeasurementTable> deserialise(std::string_view bytes);

}  // namespace driftgate::gpu
