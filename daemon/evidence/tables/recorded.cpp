#include "daemon/evidence/tables/recorded.hpp"

#include "daemon/evidence/audit/audit_json.hpp"

namespace driftgate::evidence::tables {

Result<RecordedRows> recorded_rows(LogView& log, schema::EvidenceKind made,
                                   std::optional<schema::EvidenceKind> ended, std::string_view member) {
  RecordedRows rows;
  EntryFilter filter{.kind = made};
  if (ended) filter.kinds = {*ended};
  TRY(log.each(filter, [&](const LogEntry& entry) {
    auto& row = rows[text_at(entry.body, member)];
    if (entry.kind == schema::to_string(made)) {
      row = {entry, std::nullopt};
    } else {
      row.ended = entry;
    }
    return true;
  }));
  return rows;
}

}  // namespace driftgate::evidence::tables
