#include "stages/slices/slice_search.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_map>

#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

constexpr double kShrink = 1.6448536269514722;  ///< standard errors taken off an excess: its 95% limit
constexpr unsigned kCodeBits = 20;
static_assert(kMaxSearchedValues < (1U << kCodeBits));

/// One slice's figures over the open sequences, gathered cluster by cluster.
struct Cell {
  Fingerprint members;  ///< of both halves, those set aside included
  std::uint64_t in_search = 0, in_test = 0;
  std::uint64_t open_search = 0, open_test = 0;
  double n = 0, sum = 0;                        ///< of the search half
  double all_n = 0, all_sum = 0;                ///< of both halves
  double clusters = 0, ss = 0, sn = 0, nn = 0;  ///< Σ sum², Σ sum·n, Σ n² over clusters of the search half
  std::size_t cluster = SIZE_MAX;
  ClusterSum pending;

  void close_cluster() {
    if (pending.n > 0) {
      clusters += 1;
      ss += pending.sum * pending.sum;
      sn += pending.sum * pending.n;
      nn += pending.n * pending.n;
    }
    pending = {};
  }
  [[nodiscard]] double mean() const { return sum / n; }
  /// The standard error of the ratio mean; infinite with one cluster.
  [[nodiscard]] double error() const {
    if (clusters < 2) return HUGE_VAL;
    const double residuals = std::max(0.0, ss - 2 * mean() * sn + mean() * mean() * nn);
    return std::sqrt(clusters / (clusters - 1) * residuals) / n;
  }
};

struct Best {
  double score = -HUGE_VAL;
  FoundSlice slice;
  Fingerprint members;
};

class Search {
 public:
  Search(const gpu::MeasurementTable& table, const SearchSpace& space, const SearchRequest& request)
      : space_(space), request_(request), figures_(*request.figures), open_(space.sequences(), true) {
    for (const schema::SliceWhere& where : request.decided) set_decided(select_sequences(table, where));
    Fingerprint corpus;
    for (std::size_t i = 0; i < space.sequences(); ++i) corpus.add(i);
    known_.insert(corpus);
  }

  SearchResult run() {
    SearchResult result;
    for (std::size_t round = 0; round < request_.rounds; ++round) {
      best_ = {};
      small_ = {};
      looked_at_ = 0;
      for (const auto& dimensions : space_.combinations(request_.depth)) pass(dimensions);
      if (round == 0) result.looked_at = looked_at_;
      result.too_small.reset();
      if (small_.slice.excess > 0) result.too_small = small_.slice;
      const bool any = std::isfinite(best_.slice.excess) && !best_.slice.where.empty();
      if (!any || (round > 0 && best_.slice.excess <= 0)) break;
      result.found.push_back(best_.slice);
      known_.insert(best_.members);
      if (best_.slice.excess <= 0) break;
      set_aside(best_.slice.where);
    }
    return result;
  }

 private:
  [[nodiscard]] double excess(double mean) const {
    return figures_.harm_above ? mean - figures_.tau : figures_.tau - mean;
  }

  void set_decided(const Selection& members) {
    Fingerprint print;
    ClusterSum sum;
    for (const std::size_t i : members) {
      print.add(i);
      if (!space_.in_search_half(i)) continue;
      sum.n += figures_.parts[i].n;
      sum.sum += figures_.parts[i].sum;
    }
    known_.insert(print);
    if (sum.n <= 0 || excess(sum.sum / sum.n) <= 0) return;
    for (const std::size_t i : members) open_[i] = false;
  }

  void set_aside(const schema::SliceWhere& where) {
    for (std::size_t i = 0; i < space_.sequences(); ++i) {
      bool inside = true;
      for (std::size_t d = 0; d < space_.dimensions() && inside; ++d) {
        const auto wanted = where.find(space_.name(d));
        inside = wanted == where.end() || space_.value(d, space_.code(d, i)) == wanted->second;
      }
      if (inside) open_[i] = false;
    }
  }

  void pass(const std::vector<std::size_t>& dimensions) {
    cells_.clear();
    for (const std::size_t i : space_.order()) add(cells_[space_.key(dimensions, i)], i);
    // In the order of the codes, so that ties fall alike on every platform.
    std::vector<std::uint64_t> keys;
    for (const auto& [key, cell] : cells_) keys.push_back(key);
    std::ranges::sort(keys);
    for (const std::uint64_t key : keys) consider(dimensions, key, cells_.at(key));
  }

  void add(Cell& cell, std::size_t i) const {
    const ClusterSum& part = figures_.parts[i];
    cell.members.add(i);
    if (part.n <= 0) return;  // nothing is known of it
    const bool searched = space_.in_search_half(i);
    ++(searched ? cell.in_search : cell.in_test);
    if (!open_[i]) return;
    ++(searched ? cell.open_search : cell.open_test);
    cell.all_n += part.n;
    cell.all_sum += part.sum;
    if (!searched) return;
    if (space_.cluster(i) != cell.cluster) cell.close_cluster();
    cell.cluster = space_.cluster(i);
    cell.pending.n += part.n;
    cell.pending.sum += part.sum;
    cell.n += part.n;
    cell.sum += part.sum;
  }

  void consider(const std::vector<std::size_t>& dimensions, std::uint64_t key, Cell& cell) {
    cell.close_cluster();
    if (known_.contains(cell.members)) return;
    const bool large = std::min(cell.in_search, cell.in_test) >= request_.min_sequences;
    if (large) ++looked_at_;
    const bool enough = std::min(cell.open_search, cell.open_test) >= request_.min_sequences;
    if (enough && cell.n > 0) {
      const double beyond = excess(cell.mean());
      const double score = beyond - kShrink * cell.error();
      if (score > best_.score || best_.slice.where.empty()) {
        best_ = {score, describe(dimensions, key, cell, cell.mean()), cell.members};
      }
      return;
    }
    if (large || cell.open_search + cell.open_test < kLeastDescribed || cell.all_n <= 0) return;
    const double mean = cell.all_sum / cell.all_n;
    if (excess(mean) > small_.score) small_ = {excess(mean), describe(dimensions, key, cell, mean), {}};
  }

  [[nodiscard]] FoundSlice describe(const std::vector<std::size_t>& dimensions, std::uint64_t key,
                                    const Cell& cell, double mean) const {
    FoundSlice slice;
    slice.where = space_.where(dimensions, key);
    slice.estimate = mean;
    slice.excess = excess(mean);
    slice.in_search = cell.in_search;
    slice.in_test = cell.in_test;
    return slice;
  }

  const SearchSpace& space_;
  const SearchRequest& request_;
  const BoundedFigures& figures_;
  std::vector<bool> open_;
  std::set<Fingerprint> known_;
  std::unordered_map<std::uint64_t, Cell> cells_;
  Best best_, small_;
  std::uint64_t looked_at_ = 0;
};

}  // namespace

void Fingerprint::add(std::size_t sequence) {
  ++count;
  sum += mix64(sequence + 1);
}

std::uint64_t SearchSpace::key(const std::vector<std::size_t>& dimensions, std::size_t sequence) const {
  std::uint64_t key = 0;
  for (const std::size_t d : dimensions) key = key << kCodeBits | codes_[d][sequence];
  return key;
}

schema::SliceWhere SearchSpace::where(const std::vector<std::size_t>& dimensions, std::uint64_t key) const {
  schema::SliceWhere where;
  for (std::size_t back = dimensions.size(); back-- > 0;) {
    const auto code = static_cast<std::uint32_t>(key & ((1U << kCodeBits) - 1));
    where[names_[dimensions[back]]] = values_[dimensions[back]][code];
    key >>= kCodeBits;
  }
  return where;
}

SearchSpace::SearchSpace(const gpu::MeasurementTable& table, const std::vector<std::string>& dimensions,
                         std::uint64_t seed) {
  const std::size_t count = table.sequences.size();
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  clusters_ = cluster_numbers(table, order_);
  std::ranges::stable_sort(order_, {}, [&](std::size_t i) { return clusters_[i]; });
  std::vector<std::size_t> drawn(count == 0 ? 0 : clusters_[order_.back()] + 1);
  std::iota(drawn.begin(), drawn.end(), std::size_t{0});
  Random random(seed);
  random.shuffle(std::span<std::size_t>(drawn));
  std::vector<bool> first(drawn.size(), false);
  for (std::size_t i = 0; i < (drawn.size() + 1) / 2; ++i) first[drawn[i]] = true;
  searched_.resize(count);
  for (std::size_t i = 0; i < count; ++i) searched_[i] = first[clusters_[i]];

  const std::string missing(kMissingValue);
  for (const std::string& dimension : dimensions) {
    std::map<std::string, std::uint32_t> numbers;
    const auto value_of = [&](std::size_t i) -> const std::string& {
      if (i >= table.infos.size()) return missing;
      const auto found = table.infos[i].slices.find(dimension);
      return found == table.infos[i].slices.end() ? missing : found->second;
    };
    for (std::size_t i = 0; i < count && numbers.size() <= kMaxSearchedValues; ++i) numbers[value_of(i)] = 0;
    const bool absent = numbers.empty() || (numbers.size() == 1 && numbers.contains(missing));
    if (absent || numbers.size() > kMaxSearchedValues) {
      left_out_.push_back(dimension);
      continue;
    }
    names_.push_back(dimension);
    auto& values = values_.emplace_back();
    for (auto& [value, number] : numbers) {
      number = static_cast<std::uint32_t>(values.size());
      values.push_back(value);
    }
    auto& codes = codes_.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) codes[i] = numbers.at(value_of(i));
  }
}

std::vector<std::vector<std::size_t>> SearchSpace::combinations(std::uint32_t depth) const {
  std::vector<std::vector<std::size_t>> all{{}};
  std::size_t begin = 0;
  for (std::uint32_t size = 1; size <= depth; ++size) {
    const std::size_t end = all.size();
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t next = all[i].empty() ? 0 : all[i].back() + 1;
      for (std::size_t d = next; d < names_.size(); ++d) {
        auto longer = all[i];
        longer.push_back(d);
        all.push_back(std::move(longer));
      }
    }
    begin = end;
  }
  all.erase(all.begin());
  return all;
}

std::vector<schema::SliceWhere> every_slice(const gpu::MeasurementTable& table,
                                            const schema::Slices& slices) {
  const SearchSpace space(table, slices.dimensions, 0);
  const std::uint32_t depth = std::max(2U, slices.discover ? slices.discover->depth : 0);
  std::vector<schema::SliceWhere> all;
  for (const auto& dimensions : space.combinations(depth)) {
    std::set<std::uint64_t> keys;
    for (const std::size_t i : space.order()) keys.insert(space.key(dimensions, i));
    for (const std::uint64_t key : keys) {
      if (all.size() == kMaxSlices || all.size() * space.sequences() >= kMaxDescribedVisits) return all;
      all.push_back(space.where(dimensions, key));
    }
  }
  return all;
}

std::vector<OtherSlice> other_slices(const gpu::MeasurementTable& table, const schema::Slices& slices,
                                     const std::vector<schema::ClauseVerdict>& verdicts,
                                     std::set<schema::SliceWhere> known) {
  std::vector<OtherSlice> others;
  known.insert(schema::SliceWhere{});  // the whole corpus is no slice
  for (const schema::ClauseVerdict& verdict : verdicts) {
    const bool found = verdict.role == schema::SliceRole::discovered;
    if (found && known.insert(verdict.where).second) others.push_back({verdict.where, verdict.role});
  }
  for (auto& where : every_slice(table, slices)) {
    if (known.insert(where).second) others.push_back({std::move(where), schema::SliceRole::described});
  }
  return others;
}

SearchResult search_slices(const gpu::MeasurementTable& table, const SearchSpace& space,
                           const SearchRequest& request) {
  return Search(table, space, request).run();
}

}  // namespace driftgate::stages
