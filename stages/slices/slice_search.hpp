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

/// A dimension with more values than this is taken for an identifier and is not searched.
inline constexpr std::size_t kMaxSearchedValues = 1'000;
/// The number of slices that the search of one clause returns at most.
inline constexpr std::size_t kMaxFound = 5;
/// Limits the time of a search: the number of sequences times combinations of dimensions, over all rounds and
/// clauses.
inline constexpr std::uint64_t kMaxSearchVisits = 200'000'000;
/// Limits the time of describing slices: the number of sequences times slices.
inline constexpr std::uint64_t kMaxDescribedVisits = 20'000'000;
/// A slice that is too small to be decided is reported only if it has at least this many sequences.
inline constexpr std::uint64_t kLeastDescribed = 10;

/// A hash of a set of sequences: its size, and the sum of a hash of each member. Different sets of the same
/// size have the same fingerprint with a probability of about 2^−64.
struct Fingerprint {
  std::uint64_t count = 0, sum = 0;
  void add(std::size_t sequence);
  auto operator<=>(const Fingerprint&) const = default;
};

/// The attributes of a table's sequences as small integers, and the division of the clusters into a half that
/// is searched and a half on which the findings are tested.
class SearchSpace {
 public:
  /// A sequence without one of the attributes in `dimensions` has kMissingValue. The half of the search has
  /// ⌈G/2⌉ of the G clusters, drawn by `seed`.
  SearchSpace(const gpu::MeasurementTable& table, const std::vector<std::string>& dimensions,
              std::uint64_t seed);

  [[nodiscard]] std::size_t sequences() const { return order_.size(); }
  /// Indices of the sequences, ordered by cluster.
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
  /// The dimensions that are not searched, because no sequence has them or because they have too many values.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }
  /// Every set of 1 to `depth` dimensions, smaller sets first.
  [[nodiscard]] std::vector<std::vector<std::size_t>> combinations(std::uint32_t depth) const;
  /// The slice of a sequence among those of a set of at most three dimensions, as a number.
  [[nodiscard]] std::uint64_t key(const std::vector<std::size_t>& dimensions, std::size_t sequence) const;
  /// The slice that such a number stands for.
  [[nodiscard]] schema::SliceWhere where(const std::vector<std::size_t>& dimensions, std::uint64_t key) const;

 private:
  std::vector<std::size_t> order_, clusters_;
  std::vector<bool> searched_;
  std::vector<std::string> names_, left_out_;
  std::vector<std::vector<std::string>> values_;
  std::vector<std::vector<std::uint32_t>> codes_;
};

/// The slices of the corpus: each value of each dimension of `slices`, then the combinations of two
/// dimensions, and of more if `discover.depth` says so. At most kMaxSlices, and fewer where
/// kMaxDescribedVisits would be exceeded.
[[nodiscard]] std::vector<schema::SliceWhere> every_slice(const gpu::MeasurementTable& table,
                                                          const schema::Slices& slices);

/// A slice that a report shows and its role, `discovered` or `described`.
struct OtherSlice {
  schema::SliceWhere where;
  schema::SliceRole role = schema::SliceRole::described;
};
/// The slices that a report shows besides those in `known`: first those that a search found, according to
/// `verdicts`, then all others.
[[nodiscard]] std::vector<OtherSlice> other_slices(const gpu::MeasurementTable& table,
                                                   const schema::Slices& slices,
                                                   const std::vector<schema::ClauseVerdict>& verdicts,
                                                   std::set<schema::SliceWhere> known);

/// The parameters of the search for one clause.
struct SearchRequest {
  const BoundedFigures* figures = nullptr;  ///< what the clause limits; not owned
  std::uint32_t depth = 2;                  ///< the most dimensions of a slice
  std::uint64_t min_sequences = 0;          ///< the least size of a slice in each half
  std::vector<schema::SliceWhere> decided;  ///< slices that the clause decides by name
  std::size_t rounds = kMaxFound;           ///< the most slices to find
};

/// A slice that the search returns, with its figure over the sequences that were not set aside: those of the
/// search half, or of both halves for SearchResult::too_small.
struct FoundSlice {
  schema::SliceWhere where;
  double estimate = 0;  ///< mean of the figure
  double excess = 0;    ///< how far the estimate is beyond the limit, in the same unit; negative within
  std::uint64_t in_search = 0, in_test = 0;  ///< all sequences of the slice in each half
};

/// The result of the search for one clause.
struct SearchResult {
  std::vector<FoundSlice> found;        ///< worst first; not empty if any slice was large enough
  std::optional<FoundSlice> too_small;  ///< the worst slice that is too small, if it is beyond the limit
  std::uint64_t looked_at = 0;          ///< number of slices that were large enough in both halves
};

/// Searches the combinations of attributes for the slices that are furthest beyond the limit on the search
/// half. They are ranked by the lower one-sided 95% limit of their excess, so that a small slice with a noisy
/// figure does not hide a large clear one. The search runs in rounds. The sequences of each slice that was
/// found are set aside for the following rounds, and so are, from the beginning, those of decided slices
/// beyond the limit: every further slice must be beyond the limit by the sequences that are left. A slice
/// that consists of the same sequences as a decided one, or as one with fewer attributes, is not returned
/// again.
[[nodiscard]] SearchResult search_slices(const gpu::MeasurementTable& table, const SearchSpace& space,
                                         const SearchRequest& request);

}  // namespace driftgate::stages
