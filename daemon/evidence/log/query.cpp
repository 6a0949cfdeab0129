#include "daemon/evidence/log/query.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/evidence/index/entry_glance.hpp"
#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/index/index_walk.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::evidence {

using store::Reader;
using store::Row;
using store::Sql;

namespace {

constexpr Sql kOldestFirst{"entries",
                           "SELECT seq, bytes FROM entries WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq"};
constexpr Sql kNewestFirst{"newest entries",
                           "SELECT seq, bytes FROM entries WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq DESC"};
constexpr Sql kKernelsOf{"kernels of a digest", "SELECT name FROM kernels WHERE digest = ?1"};

/// Both ends included; empty when first > last.
struct Span {
  std::int64_t first = 0;
  std::int64_t last = -1;
  [[nodiscard]] bool empty() const { return first > last; }
};

/// What a filter asks of the bytes of one entry.
class Match {
 public:
  Match(Reader& reader, const EntryFilter& filter) : reader_(reader), filter_(filter) {
    for (const schema::EvidenceKind kind : filter.kinds) kinds_.push_back(schema::to_string(kind));
    if (filter.kind) kinds_.push_back(schema::to_string(*filter.kind));
    const std::pair<IndexField, const std::optional<std::string>*> wanted[] = {
        {IndexField::promotion, &filter.promotion}, {IndexField::checkpoint, &filter.checkpoint},
        {IndexField::contract, &filter.contract},   {IndexField::clause, &filter.clause},
        {IndexField::model, &filter.model},         {IndexField::actor, &filter.actor},
        {IndexField::verdict, &filter.verdict},     {IndexField::stage, &filter.stage}};
    for (const auto& [field, value] : wanted) {
      if (*value) texts_.emplace_back(field, **value);
    }
  }

  Result<void> find_kernels() {
    if (!filter_.kernel) return {};
    auto names = TRY(list_rows<std::string>(reader_, kKernelsOf, {*filter_.kernel}));
    kernels_ = std::move(names);
    kernels_.push_back(*filter_.kernel);
    return {};
  }

  [[nodiscard]] bool is_timed() const { return filter_.from_us || filter_.to_us; }
  /// Whether every entry fulfils it.
  [[nodiscard]] bool is_open() const {
    return texts_.empty() && kinds_.empty() && !filter_.kernel && !filter_.by_people && !is_timed();
  }

  /// What the index is asked for, in the order in which it is cheapest to find that nothing is there.
  [[nodiscard]] std::vector<Condition> conditions() const {
    std::vector<Condition> all;
    for (const auto& [field, value] : texts_) all.push_back({.keys = {index_key(field, value)}});
    if (filter_.kernel) {
      Condition& any = all.emplace_back();
      for (const std::string& name : kernels_) any.keys.push_back(index_key(IndexField::kernel, name));
    }
    if (!kinds_.empty()) {
      Condition& any = all.emplace_back();
      for (const std::string_view kind : kinds_) any.keys.push_back(index_key(IndexField::kind, kind));
    }
    if (filter_.by_people)
      all.push_back({.keys = {index_key(IndexField::actor, kDaemonActor)}, .none = true});
    return all;
  }

  Result<bool> operator()(std::string_view bytes) {
    if (is_open()) return true;
    const auto entry = glance_.read(bytes);
    if (!entry) return false;  // that its bytes are no entry is said by what verifies the log
    if (filter_.from_us && entry->time_us < *filter_.from_us) return false;
    if (filter_.to_us && entry->time_us >= *filter_.to_us) return false;
    for (const auto& [field, value] : texts_) {
      if (entry->at(field) != value) return false;
    }
    if (!kinds_.empty() && std::ranges::find(kinds_, *entry->at(IndexField::kind)) == kinds_.end())
      return false;
    if (filter_.by_people && entry->at(IndexField::actor) == kDaemonActor) return false;
    return filter_.kernel ? of_kernel(*entry) : Result<bool>(true);
  }

 private:
  [[nodiscard]] bool is_wanted_kernel(std::string_view name) const {
    return std::ranges::find(kernels_, name) != kernels_.end();
  }

  /// An entry that names no kernel has the one of its promotion.
  Result<bool> of_kernel(const IndexedEntry& entry) {
    const auto& named = entry.at(IndexField::kernel);
    if (named) return is_wanted_kernel(*named);
    const auto& promotion = entry.at(IndexField::promotion);
    if (!promotion) return false;
    const auto known = by_promotion_.find(*promotion);
    if (known != by_promotion_.end()) return known->second;
    const std::string id(*promotion);
    const auto kernel = TRY(kernel_of_promotion(reader_, id));
    return by_promotion_[id] = kernel && is_wanted_kernel(*kernel);
  }

  Reader& reader_;
  const EntryFilter& filter_;
  std::vector<std::string_view> kinds_;
  std::vector<std::pair<IndexField, std::string_view>> texts_;
  std::vector<std::string> kernels_;  ///< by name
  std::map<std::string, bool, std::less<>> by_promotion_;
  EntryGlance glance_;
};

/// Collects one page and the entry after it, by which the caller sees that there are more.
class Query {
 public:
  Query(Reader& reader, const EntryFilter& filter)
      : reader_(reader), filter_(filter), match_(reader, filter) {}

  Result<void> run(std::int64_t size) {
    found_.reserve(static_cast<std::size_t>(filter_.limit) + 1);
    TRY(match_.find_kernels());
    Span all{0, size - 1};
    if (filter_.end) all.last = std::min(all.last, *filter_.end - 1);
    if (filter_.cursor && filter_.newest_first) all.last = std::min(all.last, *filter_.cursor - 1);
    if (filter_.cursor && !filter_.newest_first) all.first = *filter_.cursor + 1;
    if (match_.is_open()) return range(all);
    auto indexed = TRY(indexed_size(reader_));
    const Span newer{std::max(all.first, indexed), all.last};
    const Span older{all.first, std::min(all.last, indexed - 1)};
    TRY(filter_.newest_first ? range(newer) : by_index(older, indexed));
    return filter_.newest_first ? by_index(older, indexed) : range(newer);
  }

  [[nodiscard]] std::vector<StoredEntry>& found() { return found_; }

 private:
  [[nodiscard]] bool is_full() const { return found_.size() > static_cast<std::size_t>(filter_.limit); }

  /// Looks at each entry in `span`.
  Result<void> range(Span span) {
    if (span.empty() || is_full()) return {};
    Result<void> done;
    TRY(reader_.each(filter_.newest_first ? kNewestFirst : kOldestFirst, {span.first, span.last},
                     [&](const Row& row) {
                       const auto bytes = row.bytes(1);
                       const auto matches = match_(bytes);
                       if (!matches) {
                         done = std::unexpected(matches.error());
                         return false;
                       }
                       if (*matches) found_.push_back({row.integer(0), std::string(bytes)});
                       return !is_full();
                     }));
    return done;
  }

  Result<void> by_index(Span span, std::int64_t indexed) {
    if (span.empty() || is_full()) return {};
    IndexWalk walk(match_.conditions(),
                   {.first_block = span.first / kIndexBlock,
                    .last_block = span.last / kIndexBlock,
                    .from_us = filter_.from_us,
                    .to_us = filter_.to_us,
                    .newest_first = filter_.newest_first},
                   indexed / kIndexBlock);
    while (!is_full()) {
      const auto block = TRY(walk.next(reader_));
      if (!block) return {};
      TRY(entries_of(*block, span));
    }
    return {};
  }

  /// The entries at the places of a block, neighbours by one statement.
  Result<void> entries_of(const BlockPlaces& block, Span span) {
    const std::int64_t first = block.block * kIndexBlock;
    const auto is_set = [&](std::int64_t seq) {
      return seq >= span.first && seq <= span.last && seq >= first && seq < first + kIndexBlock &&
             block.places[static_cast<std::size_t>(seq - first)];
    };
    const std::int64_t step = filter_.newest_first ? -1 : 1;
    const std::int64_t begin = filter_.newest_first ? first + kIndexBlock - 1 : first;
    for (std::int64_t i = 0; i < kIndexBlock && !is_full(); ++i) {
      const std::int64_t from = begin + step * i;
      if (!is_set(from)) continue;
      std::int64_t to = from;
      while (is_set(to + step)) to += step;
      TRY(range({std::min(from, to), std::max(from, to)}));
      i += std::max(from, to) - std::min(from, to);
    }
    return {};
  }

  Reader& reader_;
  const EntryFilter& filter_;
  Match match_;
  std::vector<StoredEntry> found_;
};

}  // namespace

Result<EntryPage> query_entries(Reader& reader, const EntryFilter& filter) {
  if (filter.limit < 1 || filter.limit > kMaxPage) {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        "a page of evidence must have 1 to 1,000 entries");
  }
  auto size = TRY(tree_size(reader));
  Query query(reader, filter);
  TRY(query.run(static_cast<std::int64_t>(size)));
  EntryPage page{.tree_size = size, .entries = std::move(query.found())};
  if (page.entries.size() > static_cast<std::size_t>(filter.limit)) {
    page.entries.pop_back();
    page.next = page.entries.back().seq;
  }
  return page;
}

Result<void> each_entry(Reader& reader, EntryFilter filter,
                        const std::function<Result<bool>(const StoredEntry&)>& take) {
  for (;;) {
    const auto page = TRY(query_entries(reader, filter));
    for (const StoredEntry& entry : page.entries) {
      const bool more = TRY(take(entry));
      if (!more) return {};
    }
    if (!page.next) return {};
    filter.cursor = page.next;
    filter.limit = std::min(2 * filter.limit, kMaxPage);
  }
}

Result<std::optional<StoredEntry>> first_entry(Reader& reader, EntryFilter filter) {
  filter.limit = 1;
  auto page = TRY(query_entries(reader, filter));
  if (page.entries.empty()) return std::nullopt;
  return std::move(page.entries.front());
}

Result<std::int64_t> newest_time_us(store::Reader& reader) {
  static constexpr store::Sql kNewest{"newest entry", "SELECT bytes FROM entries ORDER BY seq DESC LIMIT 1"};
  auto found = TRY(reader.one(kNewest, {}, [](const Row& row) { return EntryGlance().read(row.bytes(0)); }));
  return found && *found ? (*found)->time_us : 0;
}

}  // namespace driftgate::evidence
