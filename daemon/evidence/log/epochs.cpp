#include "daemon/evidence/log/epochs.hpp"

#include <fmt/format.h>

#include "daemon/evidence/log/query.hpp"

namespace driftgate::evidence {

Result<std::uint64_t> log_epoch(store::Reader& reader) {
  auto page =
      query_entries(reader, {.kind = schema::EvidenceKind::epoch_changed, .newest_first = true, .limit = 1});
  if (!page) return std::unexpected(std::move(page.error()));
  if (page->entries.empty()) return 1;
  const auto entry = schema::decode_entry(page->entries.front().bytes);
  if (!entry) return std::unexpected(entry.error());
  const auto number = entry->draft.body.find("epoch");
  if (number == entry->draft.body.end() || number->second.integer() == nullptr) {
    return schema::fail(schema::ErrorCode::corrupt,
                        fmt::format("evidence entry {} names no epoch", entry->seq));
  }
  return static_cast<std::uint64_t>(*number->second.integer());
}

std::string origin_of(std::string_view configured, std::uint64_t epoch) {
  return epoch <= 1 ? std::string(configured) : fmt::format("{}/epoch-{}", configured, epoch);
}

}  // namespace driftgate::evidence
