#include "daemon/evidence/log/epochs.hpp"

#include <fmt/format.h>

#include "daemon/base/entry_members.hpp"
#include "daemon/evidence/log/query.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

Result<std::uint64_t> log_epoch(store::Reader& reader) {
  const auto newest =
      TRY(first_entry(reader, {.kind = schema::EvidenceKind::epoch_changed, .newest_first = true}));
  if (!newest) return 1;
  const auto entry = TRY(schema::decode_entry(newest->bytes));
  const auto epoch = base::integer_at(entry.draft.body, "epoch", -1);
  if (epoch >= 0) return static_cast<std::uint64_t>(epoch);
  return schema::failf(schema::ErrorCode::corrupt, "evidence entry {} names no epoch", entry.seq);
}

std::string origin_of(std::string_view configured, std::uint64_t epoch) {
  return epoch <= 1 ? std::string(configured) : fmt::format("{}/epoch-{}", configured, epoch);
}

}  // namespace driftgate::evidence
