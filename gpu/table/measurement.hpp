#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/table/column_contrast.hpp"
#include "gpu/table/profile.hpp"
#include "gpu/table/support_sums.hpp"
#include "schema/error.hpp"
#include "schema/metrics.hpp"

namespace driftgate::gpu {

using schema::kRowMetricCount;
using schema::Metric;

/// Count, sum, sum of squares and extremes of one metric over some rows. Parts are merged in rank order.
struct Moments {
  std::uint64_t n = 0;
  double sum = 0, sum_squares = 0;
  double min = 0, max = 0;  ///< undefined while n == 0
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

/// Sums over the target tokens of one sequence (docs/design/measurement.md, "Figures of target tokens").
/// `w = exp(log_ratio)`.
struct TargetTokenSums {
  std::uint64_t n = 0;
  double log_w = 0, w = 0, w_squares = 0;
  double abs_w_minus_1 = 0;  ///< Σ|w − 1|
  double k3 = 0;             ///< Σ(w − 1 − log w)
  double abs_log_w = 0, exp_abs_log_w = 0;
  double log_p = 0, log_q = 0;                                ///< Σ log p_a, Σ log q_a
  std::uint64_t outside_clip = 0;                             ///< w outside [1 − c, 1 + c]
  std::array<std::uint64_t, 3> in_band{};                     ///< |w − 1| ≤ 0.1%, 1%, 5%
  double p = 0, q = 0, p_squares = 0, q_squares = 0, pq = 0;  ///< Σp, Σq, Σp², Σq², Σpq for prob_pearson
  double excess_is_clip = 0;  ///< Σ(|w − 1| − is_clip)⁺, for link 5 of the bound chain
  double min_log_q = 0;
};

/// Bounds of one metric over some rows: moments of the lower bounds and of the upper bounds. An upper bound
/// that does not exist is infinite.
struct BoundMoments {
  Moments lower, upper;
};

/// The figures of one sequence whose distributions are known only in part (docs/design/measurement.md,
/// "Bounds").
struct SequenceBounds {
  std::vector<BoundMoments> metrics;  ///< by index of PartialInfo::metrics
  /// The number of rows that may be beyond each threshold, by their worse bound; SequenceRow::beyond counts
  /// the rows that certainly are.
  std::vector<std::uint32_t> maybe_beyond;
  Moments tail_train, tail_inf;  ///< probability mass outside the tokens that both kernels reported
};

/// A problem of the captures that users must know about (docs/design/measurement.md, "Checks of captures").
struct CaptureFinding {
  std::string name;      ///< "rounded_to_bf16", "positive_logprobs", "off_by_one" …
  std::string side;      ///< "train", "inf" or "both"
  bool decides = false;  ///< true: the figures are invalid, and every clause over them is an error
  std::uint64_t count = 0, of = 0;
  std::string text;  ///< one sentence
};

/// Describes a table whose distributions are known only in part.
struct PartialInfo {
  std::string mode;                ///< "topk", "matched", "realised"; empty: whole distributions
  std::uint32_t listed = 0;        ///< K, the longest list of the two captures
  std::vector<Metric> metrics;     ///< their figures are bounds, and `SequenceRow::metrics` has none of them
  std::uint64_t unknown_rows = 0;  ///< rows without a token that both kernels reported
  std::vector<CaptureFinding> findings;
};

/// All figures of one sequence, which is the unit (cluster) of the statistics.
struct SequenceRow {
  std::int64_t sequence = 0;
  std::uint32_t rows = 0;
  std::array<Moments, kRowMetricCount> metrics;
  Moments head_tail_tv;               ///< link 2 of the bound chain: an upper bound of each row's tv
  std::vector<std::uint32_t> beyond;  ///< by index of MeasurementTable::thresholds
  TargetTokenSums target;
  /// Probability of each kernel's most likely token at the sequence's last captured position; absent where
  /// that row has no full logits or is not finite.
  std::optional<double> top_train, top_inf;
  RowContrast contrast;
  std::optional<SequenceBounds> bounds;  ///< present where PartialInfo::mode is set
  std::optional<SupportSums> support;    ///< present where rows of this sequence were tested
};

/// The attributes of a sequence in the corpus. An attribute that the corpus does not state stays absent.
struct SequenceInfo {
  std::int64_t sequence = 0;
  std::string id;
  std::map<std::string, std::string> slices;
  std::optional<double> reward, advantage;
  std::optional<bool> correct_train, correct_inf;
  std::optional<double> confidence_train, confidence_inf;
  std::string cluster;  ///< empty = the sequence itself
};

/// One of the worst rows: its place and all its figures.
struct WorstRow {
  std::uint64_t row = 0;
  std::int64_t sequence = 0, position = 0, token = -1;
  std::array<double, kRowMetricCount> values{};  ///< lower bounds, where a metric has bounds
  /// kl_inf_train of the rows before and after it; NaN where that row belongs to another sequence or has no
  /// figure.
  double kl_before = std::numeric_limits<double>::quiet_NaN();
  double kl_after = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> upper;  ///< by index of PartialInfo::metrics
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

/// One slice of the table: the rows of all sequences that match `where` (empty: the corpus).
struct SliceHistograms {
  std::map<std::string, std::string> where;
  std::array<Histogram, kRowMetricCount> histograms;
};

struct CaptureIdentity {
  std::string kernel, checkpoint_digest, corpus_digest, token_source, sampling_filter;
  double temperature = 1;
  std::string file_digest;  ///< "sha256:…" over the capture's files; empty unless requested
};

/// The engine's result (docs/design/measurement.md, "The measurement table"), and the only input of the
/// stages. The digest of its bytes is part of the evidence of each verdict.
struct MeasurementTable {
  CaptureIdentity train, inf;
  std::uint64_t rows = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t top_k = 10;
  double ppo_clip = 0.2;
  std::optional<double> is_clip;
  bool has_tokens = false;  ///< the target tokens are known, and so are the figures derived from them
  std::vector<Threshold> thresholds;
  std::vector<SequenceRow> sequences;   ///< by first appearance
  std::vector<SequenceInfo> infos;      ///< parallel to `sequences`; empty attributes without a corpus
  std::vector<SliceHistograms> slices;  ///< [0] is the corpus
  std::vector<WorstRow> worst_rows;     ///< by kl_inf_train, worst first; nonfinite rows before all
  std::uint64_t nonfinite_rows = 0;
  DriftProfile profile;
  std::optional<ColumnContrast> columns;  ///< of some rows; present where they were looked at
  PartialInfo partial;
  /// The number of rows that were measured on the CPU because the device could not keep the permitted error;
  /// absent where no device was used.
  std::optional<std::uint64_t> rows_on_cpu;

  /// Index of a metric in PartialInfo::metrics; nothing where its figures are exact.
  [[nodiscard]] std::optional<std::size_t> bounded(Metric metric) const;
  /// Whether K_inf itself sampled the tokens, without filters: only then do the figures marked † in
  /// docs/design/measurement.md, "Figures of target tokens", estimate what they are named after.
  [[nodiscard]] bool sampled_by_inf() const;
};

/// Converts to canonical bytes (little-endian, versioned) and back. Equal tables give equal bytes. Errors of
/// deserialise: see table_codec.cpp; each names the rule that the bytes break.
[[nodiscard]] std::string serialise(const MeasurementTable& table);
[[nodiscard]] schema::Result<MeasurementTable> deserialise(std::string_view bytes);

}  // namespace driftgate::gpu
