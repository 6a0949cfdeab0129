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

/// The value of an attribute that a sequence lacks. It makes a slice like any other value.
inline constexpr std::string_view kMissingValue = "(missing)";
/// The number of slices that one report covers at most.
inline constexpr std::size_t kMaxSlices = 1'000;

/// Indices of the selected sequences of a table.
using Selection = std::vector<std::size_t>;

/// Whether the attributes have every value that `where` demands.
[[nodiscard]] bool matches(const std::map<std::string, std::string>& attributes,
                           const schema::SliceWhere& where);
/// The sequences that match `where`; all sequences if it is empty.
[[nodiscard]] Selection select_sequences(const gpu::MeasurementTable& table, const schema::SliceWhere& where);
/// The inverse of schema::slice_text: "domain=code;language=de" as a slice. Parts without '=' are ignored.
[[nodiscard]] schema::SliceWhere parse_slice(std::string_view text);

/// The slices of a single value: every value of every dimension that occurs, kMissingValue included, except
/// those of `critical`. By dimension, sorted by value, at most kMaxSlices. A dimension that no sequence has
/// gives none.
[[nodiscard]] std::vector<schema::SliceWhere> monitored_slices(const schema::Slices& slices,
                                                               const std::vector<gpu::SequenceInfo>& infos);

/// The number of the cluster of each selected sequence, from 0 without gaps. A cluster is the corpus's
/// `cluster` where it states one, else the sequence itself.
[[nodiscard]] std::vector<std::size_t> cluster_numbers(const gpu::MeasurementTable& table,
                                                       const Selection& selection);

/// The sum over each cluster of what `extract` returns for its sequences (from a SequenceRow, a ClusterSum).
/// Clusters without units are left out.
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
