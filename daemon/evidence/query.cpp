#include "daemon/evidence/query.hpp"

#include <limits>

namespace driftgate::evidence {

using store::Row;
using store::Sql;

namespace {

// Every statement has the same parameters; one condition, stated without "IS NULL OR", picks the index.
#define SELECT_ENTRIES "SELECT seq, bytes FROM entries WHERE "
#define ALL_FILTERS                                                                                    \
  "(?1 IS NULL OR promotion = ?1) AND (?2 IS NULL OR checkpoint = ?2) AND (?3 IS NULL OR model = ?3) " \
  "AND (?4 IS NULL OR kind = ?4) AND (?5 IS NULL OR time_us >= ?5) AND (?6 IS NULL OR time_us < ?6) "  \
  "AND (?7 IS NULL OR stage = ?7) AND (?8 IS NULL OR contract = ?8) AND (?9 IS NULL OR actor = ?9) "   \
  "AND (?10 IS NULL OR clause = ?10) AND (?11 IS NULL OR verdict = ?11) "
#define OLDEST_FIRST "AND seq > ?12 ORDER BY seq LIMIT ?13"
#define NEWEST_FIRST "AND seq < ?12 ORDER BY seq DESC LIMIT ?13"

struct Directions {
  Sql ascending;
  Sql descending;
};

constexpr Directions kByPromotion{
    {"entries of a promotion", SELECT_ENTRIES "promotion = ?1 AND " ALL_FILTERS OLDEST_FIRST},
    {"newest entries of a promotion", SELECT_ENTRIES "promotion = ?1 AND " ALL_FILTERS NEWEST_FIRST}};
constexpr Directions kByCheckpoint{
    {"entries of a checkpoint", SELECT_ENTRIES "checkpoint = ?2 AND " ALL_FILTERS OLDEST_FIRST},
    {"newest entries of a checkpoint", SELECT_ENTRIES "checkpoint = ?2 AND " ALL_FILTERS NEWEST_FIRST}};
constexpr Directions kByModel{
    {"entries of a model", SELECT_ENTRIES "model = ?3 AND " ALL_FILTERS OLDEST_FIRST},
    {"newest entries of a model", SELECT_ENTRIES "model = ?3 AND " ALL_FILTERS NEWEST_FIRST}};
constexpr Directions kByKind{
    {"entries of a kind", SELECT_ENTRIES "kind = ?4 AND " ALL_FILTERS OLDEST_FIRST},
    {"newest entries of a kind", SELECT_ENTRIES "kind = ?4 AND " ALL_FILTERS NEWEST_FIRST}};
constexpr Directions kByTime{
    {"entries since", SELECT_ENTRIES "time_us >= ?5 AND " ALL_FILTERS OLDEST_FIRST},
    {"newest entries since", SELECT_ENTRIES "time_us >= ?5 AND " ALL_FILTERS NEWEST_FIRST}};
constexpr Directions kAll{{"entries", SELECT_ENTRIES ALL_FILTERS OLDEST_FIRST},
                          {"newest entries", SELECT_ENTRIES ALL_FILTERS NEWEST_FIRST}};

#undef SELECT_ENTRIES
#undef ALL_FILTERS
#undef OLDEST_FIRST
#undef NEWEST_FIRST

const Directions& statement_for(const EntryFilter& filter) {
  if (filter.promotion) return kByPromotion;
  if (filter.checkpoint) return kByCheckpoint;
  if (filter.model) return kByModel;
  if (filter.kind) return kByKind;
  // The range of the time index would have to be sorted: worth it only where a lower end keeps it short.
  if (filter.from_us) return kByTime;
  return kAll;
}

}  // namespace

Result<EntryPage> query_entries(store::Reader& reader, const EntryFilter& filter) {
  if (filter.limit < 1 || filter.limit > kMaxPage) {
    return schema::fail(schema::ErrorCode::invalid_argument, "a page of evidence has 1 to 1,000 entries");
  }
  auto size = tree_size(reader);
  if (!size) return std::unexpected(std::move(size.error()));
  std::optional<std::string_view> kind;
  if (filter.kind) kind = schema::to_string(*filter.kind);
  const Directions& statements = statement_for(filter);
  const Sql& sql = filter.newest_first ? statements.descending : statements.ascending;
  const std::int64_t start = filter.newest_first ? std::numeric_limits<std::int64_t>::max() : -1;
  auto found = reader.all(sql,
                          {filter.promotion, filter.checkpoint, filter.model, kind, filter.from_us,
                           filter.to_us, filter.stage, filter.contract, filter.actor, filter.clause,
                           filter.verdict, filter.cursor.value_or(start), filter.limit + 1},
                          [](const Row& row) {
                            return StoredEntry{row.integer(0), row.text(1)};
                          });
  if (!found) return std::unexpected(std::move(found.error()));
  EntryPage page{.tree_size = *size, .entries = std::move(*found)};
  if (page.entries.size() > static_cast<std::size_t>(filter.limit)) {
    page.entries.pop_back();
    page.next = page.entries.back().seq;
  }
  return page;
}

}  // namespace driftgate::evidence
