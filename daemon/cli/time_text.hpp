#pragma once

#include <cstdint>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::cli {

/// Microseconds since the epoch of "2026-01-31", "2026-01-31T12:00:05" (or with a space, with or without a
/// final Z), all UTC, of digits that already are microseconds, or of "now" by this machine's clock.
/// `invalid_argument` for anything else.
[[nodiscard]] schema::Result<std::int64_t> parse_time(std::string_view text);

}  // namespace driftgate::cli
