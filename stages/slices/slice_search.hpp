#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/clauses/metric_test.hpp"
#include "stages/clauses/selection.hpp"

namespace driftgate::stages {

/// A dimension with more values than this is an identifier rather than an attribute and is not searched.
inline constexpr std::size_t kMaxSearchedValues = 1'000;
/// Slices that one clause's search names, at most.
inline constexpr std::size_t kMaxFound = 5;
/// Sequences that all passes of all clauses look at, at most, once for each combination of dimensions.
inline constexpr std::uint64_t kMaxSearchVisits = 200'000'000;
/// Sequences that describing all slices looks at, at most, once for each slice.
inline constexpr std::uint64_t kMaxDescribedVisits = 20'000'000;
/// Fewer sequences than this are not spoken of at all.
inline constexpr std::uint64_t kLeastDescribed = 10;

/// A set of sequences, told apart from every other one but by a chance of 2^−64.
struct Fingerprint {
  std::uint64_t count = 0, sum = 0;
  void add(std::size_t sequence);
  auto operator<=>(const Fingerprint&) const = default;
};

/// The attributes of a table's sequences as small numbers, and the halves that a search and its test look at.
class SearchSpace {
 public:
  /// `dimensions` are attributes; a sequence without one has the value "(missing)". The halves are drawn by
  /// `seed` over whole clusters, the first of ⌈G/2⌉ for the search.
  SearchSpace(const gpu::MeasurementTable& table, const std::vector<std::string>& dimensions,
              std::uint64_t seed);

  [[nodiscard]] std::size_t sequences() const { return order_.size(); }
  /// Indexes of the sequences, those of a cluster together.
  [[nodiscard]] const std::vector<std::size_t>& order() const { return order_; }
  [[nodiscard]] std::size_t cluster(std::size_t sequence) const { return clusters_[sequence]; }
  [[nodiscard]] bool in_search_half(std::size_t sequence) const { return searched_[sequence]; }
  [[nodiscard]] std::size_t dimensions() const { return names_.size(); }
  [[nodiscard]] std::uint32_t code(std::size_t dimension, std::size_t sequence) const {
    return codes_[dimension][sequence];
  }
  [[nodiscard]] const std::string& name(std::size_t dimension) const { return names_[dimension]; }
  [[nodiscard]] const std::string& value(std::size_t dimension, std::uint32_t code) const {
    return values_[dimension][code];
  }
  /// Dimensions left out because no sequence has them or because they have too many values.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }
  /// Every set of 1 to `depth` dimensions, the smaller sets first.
  [[nodiscard]] std::vector<std::vector<std::size_t>> combinations(std::uint32_t depth) const;
  /// The slice of a sequence among those of at most three `dimensions`, as a number; and what it stands for.
  [[nodiscard]] std::uint64_t key(const std::vector<std::size_t>& dimensions, std::size_t sequence) const;
  [[nodiscard]] schema::SliceWhere where(const std::vector<std::size_t>& dimensions, std::uint64_t key) const;

 private:
  std::vector<std::size_t> order_, clusters_;
  std::vector<bool> searched_;
  std::vector<std::string> names_, left_out_;
  std::vector<std::vector<std::string>> values_;
  std::vector<std::vector<std::uint32_t>> codes_;
};

/// Every slice of the corpus: each value of each dimension of `slices` and each combination of them, of two
/// or of as many as `discover.depth` says, the simpler ones first; at most kMaxSlices, and fewer where
/// sequences times slices would be over kMaxDescribedVisits.
[[nodiscard]] std::vector<schema::SliceWhere> every_slice(const gpu::MeasurementTable& table,
                                                          const schema::Slices& slices);

struct OtherSlice {
  schema::SliceWhere where;
  schema::SliceRole role = schema::SliceRole::described;
};
/// The slices that a report shows beside those of `known`: the ones that a search found, then every other one.
[[nodiscard]] std::vector<OtherSlice> other_slices(const gpu::MeasurementTable& table,
                                                   const schema::Slices& slices,
                                                   const std::vector<schema::ClauseVerdict>& verdicts,
                                                   std::set<schema::SliceWhere> known);

/// What one clause's search is asked.
struct SearchRequest {
  const BoundedFigures* figures = nullptr;
  std::uint32_t depth = 2;
  std::uint64_t min_sequences = 0;          ///< in each half
  std::vector<schema::SliceWhere> decided;  ///< slices that the clause decides by name
  std::size_t rounds = kMaxFound;
};

/// A slice that the search half puts beyond the limit (or nearest to it, when none is).
struct FoundSlice {
  schema::SliceWhere where;
  double estimate = 0;  ///< on the search half
  double excess = 0;    ///< of that estimate beyond the limit, in the figure's unit; negative inside
  std::uint64_t in_search = 0, in_test = 0;  ///< sequences
};

struct SearchResult {
  std::vector<FoundSlice> found;        ///< worst first; at least one when any slice was large enough
  std::optional<FoundSlice> too_small;  ///< the worst one under `min_sequences`, if it is beyond the limit
  std::uint64_t looked_at = 0;          ///< slices large enough in both halves
};

/// Searches the combinations of attributes for the slices furthest beyond the limit on the search half. They
/// are ordered by the lower one-sided 95% limit of their excess, so that a small noisy slice does not hide a
/// large clear one. After each find its sequences, and before the first those of decided slices that are
/// beyond the limit, are set aside: the next must be beyond the limit by what is left. Slices with the same
/// sequences as a decided or a simpler one are not repeated.
[[nodiscard]] SearchResult search_slices(const gpu::MeasurementTable& table, const SearchSpace& space,
                                         const SearchRequest& request);

}  // namespace driftgate::stages
