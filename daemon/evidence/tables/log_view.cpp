#include "daemon/evidence/tables/log_view.hpp"

#include <utility>

#include "daemon/evidence/audit/audit_json.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence::tables {

Result<LogEntry> decode(const StoredEntry& stored) {
  auto json = TRY(entry_json(stored));
  LogEntry entry{.seq = integer_at(json, "seq", -1),
                 .time_us = integer_at(json, "time_us", -1),
                 .kind = text_at(json, "kind"),
                 .actor = text_at(json, "actor"),
                 .subject = object_at(json, "subject"),
                 .body = object_at(json, "body")};
  if (entry.seq == stored.seq) return entry;
  return schema::failf(schema::ErrorCode::corrupt,
                       "evidence entry {} says that it is entry {}: restore a backup", stored.seq, entry.seq);
}

Result<void> LogView::each(EntryFilter filter, const std::function<Result<bool>(const LogEntry&)>& take) {
  return each_entry(reader_, filter, [&](const StoredEntry& stored) -> Result<bool> {
    const auto entry = TRY(decode(stored));
    return take(entry);
  });
}

Result<std::optional<LogEntry>> LogView::only(EntryFilter filter) {
  filter.limit = 1;
  std::optional<LogEntry> found;
  TRY(each(std::move(filter), [&](const LogEntry& entry) {
    found = entry;
    return false;
  }));
  return found;
}

Result<std::optional<LogEntry>> LogView::newest(EntryFilter filter) {
  filter.newest_first = true;
  return only(std::move(filter));
}

Result<std::optional<LogEntry>> LogView::oldest(EntryFilter filter) {
  filter.newest_first = false;
  return only(std::move(filter));
}

Result<std::optional<LogEntry>> LogView::at(std::int64_t seq) {
  auto stored = TRY(find_entry(reader_, seq));
  if (!stored) return std::nullopt;
  return decode(*stored);
}

}  // namespace driftgate::evidence::tables
