#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// Records that window `number` of a router process is consumed, in the transaction that consumes it. True
/// when it is the next one; false when it was consumed before (replay); `conflict` when a window between is
/// missing.
Result<bool> consume_window(Tx& tx, std::string_view router_id, std::uint64_t number, std::int64_t now_us);
/// Skips windows that the router has dropped, so that `number` is the newest consumed one.
Result<void> skip_windows(Tx& tx, std::string_view router_id, std::uint64_t number, std::int64_t now_us);
/// Records the newest consumed window of one model.
Result<void> note_model_window(Tx& tx, std::string_view router_id, std::string_view model,
                               std::uint64_t number);
/// The newest consumed window of one model, nothing when none was noted.
Result<std::optional<std::uint64_t>> model_window(Reader& reader, std::string_view router_id,
                                                  std::string_view model);
/// The newest consumed window of a router process, 0 when none: what may be acknowledged.
Result<std::uint64_t> window_watermark(Reader& reader, std::string_view router_id);
/// Records the newest event of a router's breakers that is recorded in the log.
Result<void> note_breaker_event(Tx& tx, std::string_view router_id, std::uint64_t number);
/// That event's number, 0 when none was noted.
Result<std::uint64_t> breaker_event(Reader& reader, std::string_view router_id);
/// Records that a router process is gone and sends no more windows. False when that was recorded before.
Result<bool> end_router(Tx& tx, std::string_view router_id, std::int64_t now_us);

}  // namespace driftgate::store
