#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "stages/bounds/bounds.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// The moments of one metric over all rows of the selected sequences.
[[nodiscard]] gpu::Moments total_moments(const gpu::MeasurementTable& table, const Selection& selection,
                                         schema::Metric metric);

/// One part of an assumption that has several, marked with kCheckedPart if its status is `checked`.
[[nodiscard]] inline std::string part(std::string text, AssumptionStatus status) {
  return status == AssumptionStatus::checked ? std::move(text) + std::string(kCheckedPart) : text;
}

/// Builds the links of one bound chain (docs/design/measurement.md, "The bound chain"). Used only by
/// stages/bounds/bounds*.cpp. The functions add_* append links to `chain`; those that return a link or a
/// status return that of the link they added.
struct BoundBuilder {
  const gpu::MeasurementTable& table;
  const schema::Assumptions& assumptions;
  Selection selection;
  double alpha;
  std::uint64_t seed;
  std::optional<double> reward_tolerance{};
  BoundChain chain{};
  std::string lost_support{};  ///< why q does not cover p, where that is known
  bool values_only = false;    ///< no confidence limits, most of whose cost is resampling

  /// Link 1: bounds from the largest logit span of the measured rows.
  void add_span_links();
  /// Link 2.
  void add_head_tail();
  /// Link 1, continued: the mean tv, measured or by its upper bounds, and its bound from the mean KL. Returns
  /// the mean tv that links 3 and 5 use; where tv was not measured, its bound from KL. Without rows of
  /// either, the result has n = 0.
  MeanTest add_tv_links();
  /// Link 4, bounds_sequence.cpp.
  void add_sequence();
  /// The exact upper limit of the mean of `losses`, at level 1 − `level`.
  void add_sequence_sampled(std::span<const ClusterSum> losses, double level);
  /// The smallest of the `limits` that stand for whole sequences; nothing without any.
  void add_sequence_best(int limits);
  /// What whole sequences would be if every reachable prefix were as the worst measured row.
  void add_sequence_sups();
  /// (1 − W)⁺ of each sequence with target tokens, W being the product of their importance ratios; each
  /// cluster counts once. Its mean over responses that K_inf sampled is tv_seq.
  [[nodiscard]] std::vector<ClusterSum> lost_shares() const;
  /// The mean of `losses`, an estimate of tv_seq that is unbiased and not a bound. `sampled`: the tokens were
  /// sampled by K_inf; otherwise the link is broken and has no limit.
  void add_sequence_estimate(std::span<const ClusterSum> losses, bool sampled);
  /// Link 3, bounds_sequence.cpp; link 4 must be there.
  void add_reward(const MeanTest& tv);
  /// Link 7, bounds_sequence.cpp.
  void add_inversion();
  /// Link 5, bounds_policy.cpp; link 4 must be there.
  void add_policy(const MeanTest& tv);
  /// Link 6, bounds_policy.cpp.
  void add_clip_room();
  /// Link 8.
  void add_filters();

  [[nodiscard]] gpu::Moments total(schema::Metric metric) const {
    return total_moments(table, selection, metric);
  }
  /// The largest value of a metric over the measured rows, or of its upper bound where only bounds are known;
  /// infinite where no row has the metric.
  [[nodiscard]] double largest(schema::Metric metric) const;
  /// The moments of a metric over one sequence, or of its upper bound where only bounds are known.
  [[nodiscard]] gpu::Moments at_most(const gpu::SequenceRow& row, schema::Metric metric) const;
  /// The mean over sequences of a figure in [0, 1], of whose rows each sequence takes the mean; each cluster
  /// of sequences counts once. Exact limits by betting.
  [[nodiscard]] MeanTest once_each(const std::function<gpu::Moments(const gpu::SequenceRow&)>& moments) const;
  /// The same for a metric. The limits of a metric without a largest value are approximate, by resampling.
  [[nodiscard]] MeanTest mean_of(schema::Metric metric) const;
  /// The ratio mean of `clusters` with limits by cluster bootstrap-t, each at level 1 − `level`; an empty
  /// result without clusters.
  [[nodiscard]] MeanTest resampled(std::span<const ClusterSum> clusters, double level) const;
  /// Appends a link without a value. The reference is valid until the next link is added, as are those below.
  BoundLink& add(std::uint32_t number, std::string name, std::optional<schema::Bound> bound,
                 schema::Horizon horizon);
  /// Appends a link that cannot be computed because `needs` is missing.
  void add_missing(std::uint32_t number, std::string name, std::optional<schema::Bound> bound,
                   schema::Horizon horizon, std::string needs);
  /// Appends a link whose value is a maximum over the measured rows. It has no confidence limit and says
  /// nothing about other rows.
  BoundLink& add_maximum(std::uint32_t number, std::string name, double value,
                         schema::Horizon horizon = schema::Horizon::token);
  /// Appends a link of value `factor` · (mean tv per token).
  BoundLink& add_scaled(std::uint32_t number, std::string name, schema::Bound bound, const MeanTest& tv,
                        double factor);
  /// Appends a link whose value and upper limit are `transform`, an increasing function, of those of a mean.
  BoundLink& add_mean(std::uint32_t number, std::string name, std::optional<schema::Bound> bound,
                      schema::Horizon horizon, const MeanTest& mean,
                      const std::function<double(double)>& transform);
  /// Appends a link of value `factor` · (the best bound on the tv of whole sequences); nothing where there is
  /// no such bound. The link's assumption is `assumption` together with that of the bound.
  void add_sequence_scaled(std::uint32_t number, const char* name, schema::Bound bound, double factor,
                           const std::string& assumption, AssumptionStatus status);

 private:
  /// These compare the rewards, or the advantages, that the corpus states with the contract's assumption, and
  /// record their extremes as inputs of `link`. `broken` if one is outside, `checked` if every sequence has
  /// one, else `unchecked`.
  [[nodiscard]] AssumptionStatus reward_status(BoundLink& link) const;
  [[nodiscard]] AssumptionStatus advantage_status(BoundLink& link) const;
  /// Appends the link that checks whether q covers p, bounds_support.cpp.
  AssumptionStatus add_support();
  /// Sets the status of that link by the exact test on rows of full logits; false where no row was tested.
  bool test_support(BoundLink& link);
  /// Appends the bias under importance ratios that are clipped at `is_clip`.
  void add_clipped(double scale, const std::string& assumption, AssumptionStatus status);
};

}  // namespace driftgate::stages
