#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// Records that the windows of a router process up to `number` are consumed, or were dropped by it, in the
/// transaction that consumes the last of them. A watermark that is higher stays.
Result<void> advance_watermark(Tx& tx, std::string_view router_id, std::uint64_t number, std::int64_t now_us);
/// Records the newest consumed window of one model, which may be above the watermark of its router while
/// another model's window waits.
Result<void> note_model_window(Tx& tx, std::string_view router_id, std::string_view model,
                               std::uint64_t number);
/// The newest consumed window of one model, nothing when none was noted.
Result<std::optional<std::uint64_t>> model_window(Reader& reader, std::string_view router_id,
                                                  std::string_view model);
/// Up to here all windows of a router process are consumed, 0 when none: what may be acknowledged.
Result<std::uint64_t> window_watermark(Reader& reader, std::string_view router_id);
/// Records the newest event of a router's breakers that is recorded in the log.
Result<void> note_breaker_event(Tx& tx, std::string_view router_id, std::uint64_t number);
/// That event's number, 0 when none was noted.
Result<std::uint64_t> breaker_event(Reader& reader, std::string_view router_id);
/// Records that a router process is gone and sends no more windows. False when that was recorded before.
Result<bool> end_router(Tx& tx, std::string_view router_id, std::int64_t now_us);

}  // namespace driftgate::store
