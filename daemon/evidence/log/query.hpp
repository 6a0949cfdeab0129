#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/evidence/log/log.hpp"
#include "daemon/store/sqlite/sql.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::evidence {

inline constexpr std::int64_t kMaxPage = 1'000;

/// The actor of what the daemon does by itself.
inline constexpr std::string_view kDaemonActor = "driftgate";

/// Which entries: every given field must match. Pages go by seq: `after` (ascending) or `before` (newest
/// first).
struct EntryFilter {
  std::optional<std::string> model{};
  std::optional<std::string> promotion{};
  std::optional<std::string> stage{};
  std::optional<std::string> checkpoint{};
  std::optional<std::string> contract{};
  /// Name or digest of a kernel: entries that name it, and those of promotions whose candidate runs on it.
  std::optional<std::string> kernel{};
  std::optional<schema::EvidenceKind> kind{};
  std::vector<schema::EvidenceKind> kinds{};  ///< any of these; empty: all
  std::optional<std::string> actor{};
  bool by_people = false;                 ///< not by the daemon itself
  std::optional<std::string> clause{};    ///< body.clause
  std::optional<std::string> verdict{};   ///< body.verdict
  std::optional<std::int64_t> from_us{};  ///< time_us ≥
  std::optional<std::int64_t> to_us{};    ///< time_us <
  bool newest_first = false;
  std::optional<std::int64_t> end{};     ///< seq <
  std::optional<std::int64_t> cursor{};  ///< seq of the last entry of the previous page; exclusive
  std::int64_t limit = 100;              ///< 1 … kMaxPage
};

struct EntryPage {
  std::uint64_t tree_size = 0;  ///< of the log that the page was read from
  std::vector<StoredEntry> entries{};
  std::optional<std::int64_t> next{};  ///< cursor of the next page; nothing when this is the last one
};

/// One page, found by the index of the log and by reading the entries that are newer than the index: at most
/// kIndexBlock entries are read that are not on the page. `invalid_argument` for a limit out of range.
Result<EntryPage> query_entries(store::Reader& reader, const EntryFilter& filter);

/// Calls `take` for each entry of a filter, in its order, until it returns false. `filter.limit` is the size
/// of the first page; each further page is twice as large, up to kMaxPage.
Result<void> each_entry(store::Reader& reader, EntryFilter filter,
                        const std::function<Result<bool>(const StoredEntry&)>& take);
/// The first entry of a filter, or nothing.
Result<std::optional<StoredEntry>> first_entry(store::Reader& reader, EntryFilter filter);

/// The time of the newest entry; 0 while there is none.
Result<std::int64_t> newest_time_us(store::Reader& reader);

}  // namespace driftgate::evidence
