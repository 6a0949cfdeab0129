#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "daemon/evidence/log/query.hpp"
#include "daemon/evidence/tables/findings.hpp"

namespace driftgate::evidence::tables {

using schema::Result;

/// Reads entries by the log's index.
class LogView {
 public:
  LogView(store::Reader& reader, Findings& findings) : reader_(reader), findings_(findings) {}

  /// The entries of a filter, in its order, until `take` returns false. The filter's page members are set here.
  Result<void> each(EntryFilter filter, const std::function<Result<bool>(const LogEntry&)>& take);
  /// The newest entry of a filter, or nothing.
  Result<std::optional<LogEntry>> newest(EntryFilter filter);
  /// The oldest entry of a filter, or nothing.
  Result<std::optional<LogEntry>> oldest(EntryFilter filter);
  /// The entry `seq`, or nothing when the log has none.
  Result<std::optional<LogEntry>> at(std::int64_t seq);

  [[nodiscard]] store::Reader& reader() { return reader_; }
  [[nodiscard]] Findings& findings() { return findings_; }

 private:
  Result<std::optional<LogEntry>> only(EntryFilter filter);

  store::Reader& reader_;
  Findings& findings_;
};

/// `corrupt` for bytes that are not an entry.
[[nodiscard]] Result<LogEntry> decode(const StoredEntry& stored);

}  // namespace driftgate::evidence::tables
