#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// The value that stands for an absent attribute: missing is its own value.
inline constexpr std::string_view kMissingValue = "(missing)";
/// Slices that one report looks at, at most.
inline constexpr std::size_t kMaxSlices = 1'000;

/// Indexes of the sequences of a table.
using Selection = std::vector<std::size_t>;

[[nodiscard]] bool matches(const std::map<std::string, std::string>& attributes,
                           const schema::SliceWhere& where);
/// The sequences that match `where`; all of them when it is empty.
[[nodiscard]] Selection select_sequences(const gpu::MeasurementTable& table, const schema::SliceWhere& where);
/// "domain=code;language=de" → attributes. Parts without '=' are dropped.
[[nodiscard]] schema::SliceWhere parse_slice(std::string_view text);

/// Each single value of each dimension that is not one of `critical`, sorted, at most kMaxSlices.
[[nodiscard]] std::vector<schema::SliceWhere> monitored_slices(const schema::Slices& slices,
                                                               const std::vector<gpu::SequenceInfo>& infos);

/// A number for the cluster of each selected sequence: the corpus's `cluster` field where given, else
/// the sequence itself.
[[nodiscard]] std::vector<std::size_t> cluster_numbers(const gpu::MeasurementTable& table,
                                                       const Selection& selection);

/// Σ over each cluster of what `extract` (SequenceRow → ClusterSum) gives; clusters without units drop out.
template <typename Extract>
[[nodiscard]] std::vector<ClusterSum> collect(const gpu::MeasurementTable& table, const Selection& selection,
                                              Extract extract) {
  const std::vector<std::size_t> numbers = cluster_numbers(table, selection);
  std::vector<ClusterSum> clusters;
  for (std::size_t i = 0; i < selection.size(); ++i) {
    if (numbers[i] >= clusters.size()) clusters.resize(numbers[i] + 1);
    const ClusterSum part = extract(table.sequences[selection[i]]);
    clusters[numbers[i]].n += part.n;
    clusters[numbers[i]].sum += part.sum;
  }
  std::erase_if(clusters, [](const ClusterSum& c) { return c.n <= 0; });
  return clusters;
}

}  // namespace driftgate::stages
