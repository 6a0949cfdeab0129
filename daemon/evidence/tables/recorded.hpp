#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/evidence/tables/log_view.hpp"

namespace driftgate::evidence::tables {

inline constexpr std::int64_t kRowsAtOnce = 256;  ///< in one page of a table

/// What the log says of a row: the newest entry that made it, and the one that lifted, revoked or deleted it
/// since.
struct Recorded {
  LogEntry made{};
  std::optional<LogEntry> ended{};
};
using RecordedRows = std::map<std::string, Recorded, std::less<>>;

/// The rows that entries of the kind `made` record, by the text of `member` in their bodies.
[[nodiscard]] Result<RecordedRows> recorded_rows(LogView& log, schema::EvidenceKind made,
                                                 std::optional<schema::EvidenceKind> ended,
                                                 std::string_view member);

/// Calls `take(row)` for each row that `list` returns, a page at a time; pages go on after the member `key`.
template <typename List, typename Key, typename Take>
Result<void> each_row(LogView& log, List list, Key key, Take&& take) {
  std::string after;
  for (;;) {
    const auto rows = TRY(list(log.reader(), after, kRowsAtOnce));
    if (rows.empty()) return {};
    for (const auto& row : rows) TRY(take(row));
    after = rows.back().*key;
  }
}

/// Calls `compare(row, recorded)` for each row that the log records, and names the rows that only one of the
/// two has. `where(key)` names a row, and `verb` says what its entry did: "registered".
template <typename List, typename Key, typename Where, typename Compare>
Result<void> compare_rows(LogView& log, RecordedRows recorded, List list, Key key, Where where,
                          std::string_view verb, Compare compare) {
  TRY(each_row(log, list, key, [&](const auto& row) -> Result<void> {
    const auto found = recorded.find(row.*key);
    if (found == recorded.end()) {
      log.findings().add(where(row.*key),
                         fmt::format("it is in the table, but no entry of the log {} it", verb));
      return {};
    }
    TRY(compare(row, found->second));
    recorded.erase(found);
    return {};
  }));
  for (const auto& [name, rest] : recorded) {
    log.findings().add(where(name),
                       fmt::format("it is not in the table, but {} {} it", rest.made.name(), verb));
  }
  return {};
}

}  // namespace driftgate::evidence::tables
