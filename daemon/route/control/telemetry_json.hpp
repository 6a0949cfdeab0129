#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "daemon/route/control/telemetry.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// A window as JSON text. Observations are arrays of 12 (order, key hash, flags, candidate_bp, slice,
/// outcome, reason, routed_us, ttft_ms, inter_token_ms or null, total_ms, prompt_chars), slices and
/// reasons indices into `strings`, so that a full window fits a frame.
[[nodiscard]] std::string window_to_text(const Window& window);
[[nodiscard]] schema::Result<Window> window_from_json(const nlohmann::json& json);

/// Reading refuses more than kMaxReportedEngines engines or kMaxBreakerEvents events, reasons over
/// kMaxReasonBytes, events that are not numbered upwards, and states that it does not know.
[[nodiscard]] nlohmann::json to_json(const HealthReport& report);
[[nodiscard]] schema::Result<HealthReport> health_from_json(const nlohmann::json& json);

/// One line of a spool file, without the line feed. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string pair_to_line(const MirroredPair& pair);
[[nodiscard]] schema::Result<MirroredPair> pair_from_line(std::string_view line);

}  // namespace driftgate::route
