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

/// Figures of one metric over the selected sequences.
[[nodiscard]] gpu::Moments total_moments(const gpu::MeasurementTable& table, const Selection& selection,
                                         schema::Metric metric);

/// A part of an assumption of several, with kCheckedPart where it is.
[[nodiscard]] inline std::string part(std::string text, AssumptionStatus status) {
  return status == AssumptionStatus::checked ? std::move(text) + std::string(kCheckedPart) : text;
}

/// Puts the links of one chain together. Internal to the bound chain: stages/bounds*.cpp.
struct BoundBuilder {
  const gpu::MeasurementTable& table;
  const schema::Assumptions& assumptions;
  Selection selection;
  double alpha;
  std::uint64_t seed;
  std::optional<double> reward_tolerance{};
  BoundChain chain{};
  bool values_only = false;  ///< no limits: resampling is most of the work

  /// Links 1 and 2 (bounds.cpp), 3, 4 and 7 (bounds_sequence.cpp), 5 and 6 (bounds_policy.cpp), 8.
  void add_span_links();
  void add_head_tail();
  /// The mean tv that links 3 and 5 rest on: measured, or from KL where only core metrics were.
  MeanTest add_tv_links();
  void add_sequence();
  /// The tv of whole responses itself, E_q[(1 − W)⁺] of the sampled tokens, without bias and not as a bound.
  void add_sequence_estimate(bool sampled);
  void add_reward(const MeanTest& tv);
  void add_inversion();
  void add_policy(const MeanTest& tv);
  void add_clip_room();
  void add_filters();

  [[nodiscard]] gpu::Moments total(schema::Metric metric) const {
    return total_moments(table, selection, metric);
  }
  /// The largest of the measured rows, by its upper bound where only bounds are known; infinite where none
  /// has the figure.
  [[nodiscard]] double largest(schema::Metric metric) const;
  /// The moments of a metric in one sequence, of its upper bound where only bounds are known.
  [[nodiscard]] gpu::Moments at_most(const gpu::SequenceRow& row, schema::Metric metric) const;
  /// The mean over sequences of a figure in [0, 1], each counting once by the mean of its rows: exact limits.
  [[nodiscard]] MeanTest once_each(const std::function<gpu::Moments(const gpu::SequenceRow&)>& moments) const;
  /// The same of a metric; what has no largest value is resampled.
  [[nodiscard]] MeanTest mean_of(schema::Metric metric) const;
  /// Bounds of the mean of an unbounded figure at `level`; nothing without clusters.
  [[nodiscard]] MeanTest resampled(std::span<const ClusterSum> clusters, double level) const;
  BoundLink& add(std::uint32_t number, std::string name, std::optional<schema::Bound> bound,
                 schema::Horizon horizon);
  /// A link that the contract's assumptions do not allow to compute.
  void add_missing(std::uint32_t number, std::string name, std::optional<schema::Bound> bound,
                   schema::Horizon horizon, std::string needs);
  /// A figure of the worst measured row.
  BoundLink& add_maximum(std::uint32_t number, std::string name, double value,
                         schema::Horizon horizon = schema::Horizon::token);
  /// A link that is `factor` times the mean tv per token.
  BoundLink& add_scaled(std::uint32_t number, std::string name, schema::Bound bound, const MeanTest& tv,
                        double factor);
  /// A link that is `transform` (increasing) of a mean.
  BoundLink& add_mean(std::uint32_t number, std::string name, std::optional<schema::Bound> bound,
                      schema::Horizon horizon, const MeanTest& mean,
                      const std::function<double(double)>& transform);
  /// A link that is `factor` times the best bound of the tv of whole sequences.
  void add_sequence_scaled(std::uint32_t number, const char* name, schema::Bound bound, double factor,
                           const std::string& assumption, AssumptionStatus status);

 private:
  [[nodiscard]] AssumptionStatus reward_status(BoundLink& link) const;
  [[nodiscard]] AssumptionStatus advantage_status(BoundLink& link) const;
  AssumptionStatus add_support();
  void add_clipped(double scale, const std::string& assumption, AssumptionStatus status);
};

}  // namespace driftgate::stages
