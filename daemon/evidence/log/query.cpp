#include "daemon/evidence/log/query.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/index/index_walk.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::evidence {

using store::Reader;
using store::Row;
using store::Sql;

namespace {

// ?1 and ?2: the range of seq, both ends included.
#define SELECT_ENTRIES "SELECT seq, bytes FROM entries WHERE seq >= ?1 AND seq <= ?2 "
#define IN_TIME "AND (?3 IS NULL OR time_us >= ?3) AND (?4 IS NULL OR time_us < ?4) "
#define ALL_FILTERS                                                                                          \
  IN_TIME                                                                                                    \
  "AND (?6 IS NULL OR promotion = ?6) AND (?7 IS NULL OR checkpoint = ?7) AND (?8 IS NULL OR model = ?8) "   \
  "AND (?9 IS NULL OR instr(?9, ',' || kind || ',') > 0) AND (?10 IS NULL OR stage = ?10) AND (?11 IS NULL " \
  "OR contract = ?11) "                                                                                      \
  "AND (?12 IS NULL OR actor = ?12) AND (?13 IS NULL OR clause = ?13) AND (?14 IS NULL OR verdict = ?14) "   \
  "AND (?16 = 0 OR actor <> 'driftgate') AND (?15 IS NULL OR kernel = ?15 OR EXISTS(SELECT 1 FROM kernels "  \
  "WHERE name = named.kernel AND digest = "                                                                  \
  "?15)) "
// The kernel of each entry, as the index has it.
#define SELECT_NAMED                                                                                      \
  "SELECT seq, bytes FROM (SELECT *, coalesce(CASE WHEN kind IN ('engine_registered', "                   \
  "'model_bootstrapped', 'promotion_requested') THEN json_extract(CAST(bytes AS TEXT), '$.body.kernel') " \
  "WHEN kind = 'kernel_registered' THEN json_extract(CAST(bytes AS TEXT), '$.body.name') END, "           \
  "(SELECT v.kernel FROM promotions p JOIN versions v ON v.id = p.candidate "                             \
  "WHERE p.id = entries.promotion)) AS kernel FROM entries) AS named WHERE seq >= ?1 AND seq <= ?2 "
#define OLDEST_FIRST "ORDER BY seq LIMIT ?5"
#define NEWEST_FIRST "ORDER BY seq DESC LIMIT ?5"

struct Directions {
  Sql ascending;
  Sql descending;
};

constexpr Directions kRange{{"entries", SELECT_ENTRIES IN_TIME OLDEST_FIRST},
                            {"newest entries", SELECT_ENTRIES IN_TIME NEWEST_FIRST}};
constexpr Directions kFiltered{{"entries beyond the index", SELECT_NAMED ALL_FILTERS OLDEST_FIRST},
                               {"newest entries beyond the index", SELECT_NAMED ALL_FILTERS NEWEST_FIRST}};
constexpr Directions kOfPromotion{
    {"entries of a promotion", SELECT_NAMED "AND promotion = ?6 " ALL_FILTERS OLDEST_FIRST},
    {"newest entries of a promotion", SELECT_NAMED "AND promotion = ?6 " ALL_FILTERS NEWEST_FIRST}};

#undef SELECT_ENTRIES
#undef IN_TIME
#undef ALL_FILTERS
#undef SELECT_NAMED
#undef OLDEST_FIRST
#undef NEWEST_FIRST

constexpr Sql kKey{"find index key", "SELECT id FROM index_keys WHERE field = ?1 AND value = ?2"};
constexpr Sql kKernelKeys{"find index keys of a kernel",
                          "SELECT id FROM index_keys WHERE field = ?1 AND (value = ?2 OR value IN "
                          "(SELECT name FROM kernels WHERE digest = ?2))"};
constexpr Sql kFirstBlock{"first block since",
                          "SELECT block FROM index_blocks WHERE max_us >= ?1 ORDER BY block LIMIT 1"};
constexpr Sql kLastBlock{"last block before",
                         "SELECT block FROM index_blocks WHERE min_us < ?1 ORDER BY block DESC LIMIT 1"};

/// Both ends included; empty when first > last.
struct Span {
  std::int64_t first = 0;
  std::int64_t last = -1;
  [[nodiscard]] bool empty() const { return first > last; }
};

/// Collects one page and the entry after it, by which the caller sees that there are more.
class Query {
 public:
  Query(Reader& reader, const EntryFilter& filter) : reader_(reader), filter_(filter) {
    for (const schema::EvidenceKind kind : filter.kinds) kinds_.push_back(schema::to_string(kind));
    if (filter.kind) kinds_.push_back(schema::to_string(*filter.kind));
  }

  Result<void> run(std::int64_t size) {
    found_.reserve(static_cast<std::size_t>(filter_.limit) + 1);
    Span all{0, size - 1};
    if (filter_.cursor && filter_.newest_first) all.last = std::min(all.last, *filter_.cursor - 1);
    if (filter_.cursor && !filter_.newest_first) all.first = *filter_.cursor + 1;
    if (filter_.promotion) return filtered(kOfPromotion, all);  // its own index, and few entries
    auto indexed = TRY(indexed_size(reader_));
    const Span newer{std::max(all.first, indexed), all.last};
    const Span older{all.first, std::min(all.last, indexed - 1)};
    TRY(filter_.newest_first ? filtered(kFiltered, newer) : by_index(older));
    return filter_.newest_first ? by_index(older) : filtered(kFiltered, newer);
  }

  [[nodiscard]] std::vector<StoredEntry>& found() { return found_; }

 private:
  [[nodiscard]] std::int64_t missing() const {
    return filter_.limit + 1 - static_cast<std::int64_t>(found_.size());
  }

  [[nodiscard]] const Sql& ordered(const Directions& statements) const {
    return filter_.newest_first ? statements.descending : statements.ascending;
  }

  bool take(const Row& row) {
    found_.push_back({row.integer(0), row.text(1)});
    return true;
  }

  /// Of the entries in `span`, those in the filter's time, without a look at anything else.
  Result<void> range(Span span) {
    if (span.empty() || missing() <= 0) return {};
    return reader_.each(ordered(kRange), {span.first, span.last, filter_.from_us, filter_.to_us, missing()},
                        [this](const Row& row) { return take(row); });
  }

  /// Looks at each entry in `span`.
  Result<void> filtered(const Directions& statements, Span span) {
    if (span.empty() || missing() <= 0) return {};
    const auto kinds =
        kinds_.empty() ? std::nullopt : std::optional(fmt::format(",{},", fmt::join(kinds_, ",")));
    return reader_.each(ordered(statements),
                        {span.first, span.last, filter_.from_us, filter_.to_us, missing(), filter_.promotion,
                         filter_.checkpoint, filter_.model, kinds, filter_.stage, filter_.contract,
                         filter_.actor, filter_.clause, filter_.verdict, filter_.kernel, filter_.by_people},
                        [this](const Row& row) { return take(row); });
  }

  /// What of `span` can lie in the filter's time.
  Result<Span> in_time(Span span) {
    if (filter_.from_us) {
      const auto block = TRY(find_row<std::int64_t>(reader_, kFirstBlock, {filter_.from_us}));
      if (!block) return Span{};
      span.first = std::max(span.first, *block * kIndexBlock);
    }
    if (filter_.to_us) {
      const auto block = TRY(find_row<std::int64_t>(reader_, kLastBlock, {filter_.to_us}));
      if (!block) return Span{};
      span.last = std::min(span.last, (*block + 1) * kIndexBlock - 1);
    }
    return span;
  }

  /// Adds the keys of a value to a condition.
  Result<void> add_keys(Condition& condition, IndexField field, std::string_view value) {
    const Sql& sql = field == IndexField::kernel ? kKernelKeys : kKey;
    return reader_.each(sql, {static_cast<std::int64_t>(field), value}, [&](const Row& row) {
      condition.keys.push_back(row.integer(0));
      return true;
    });
  }

  /// What the filter asks for, rare values first: they drive the walk. Nothing when no entry can fulfil it.
  Result<std::optional<std::vector<Condition>>> conditions() {
    std::vector<Condition> all;
    const std::pair<IndexField, const std::optional<std::string>*> wanted[] = {
        {IndexField::checkpoint, &filter_.checkpoint}, {IndexField::contract, &filter_.contract},
        {IndexField::kernel, &filter_.kernel},         {IndexField::clause, &filter_.clause},
        {IndexField::model, &filter_.model},           {IndexField::actor, &filter_.actor},
        {IndexField::verdict, &filter_.verdict},       {IndexField::stage, &filter_.stage}};
    for (const auto& [field, value] : wanted) {
      if (!*value) continue;
      TRY(add_keys(all.emplace_back(), field, **value));
    }
    if (!kinds_.empty()) {
      Condition& any = all.emplace_back();
      for (const std::string_view kind : kinds_) TRY(add_keys(any, IndexField::kind, kind));
    }
    if (std::ranges::any_of(all, [](const Condition& condition) { return condition.keys.empty(); }))
      return std::nullopt;
    if (filter_.by_people) {
      all.push_back({.none = true});
      TRY(add_keys(all.back(), IndexField::actor, kDaemonActor));
    }
    return all;
  }

  Result<void> by_index(Span span) {
    if (span.empty() || missing() <= 0) return {};
    auto timely = TRY(in_time(span));
    if (timely.empty()) return {};
    auto wanted = TRY(conditions());
    if (!wanted) return {};
    if (wanted->empty()) return range(timely);
    IndexWalk walk(std::move(*wanted), timely.first / kIndexBlock, timely.last / kIndexBlock,
                   filter_.newest_first);
    while (missing() > 0) {
      auto blocks = TRY(walk.next(reader_));
      if (blocks.empty()) return {};
      for (const BlockPlaces& block : blocks) {
        TRY(entries_of(block, timely));
      }
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
    for (std::int64_t i = 0; i < kIndexBlock && missing() > 0; ++i) {
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
  std::vector<std::string_view> kinds_;
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
  static constexpr store::Sql kNewest{"newest entry's time",
                                      "SELECT time_us FROM entries ORDER BY seq DESC LIMIT 1"};
  auto found = TRY(find_row<std::int64_t>(reader, kNewest, {}));
  return found.value_or(0);
}

}  // namespace driftgate::evidence
