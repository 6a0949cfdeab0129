#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace driftgate::store {

using IdRandom = std::array<std::uint8_t, 10>;  ///< 80 bits

/// An id that sorts by time: "<prefix>-" + 10 characters for the milliseconds (48 bits) + 16 for 80 random
/// bits, in lower-case Crockford base 32. Prefixes in use: pr (promotion), job, ve (version), tok (token), ap
/// (approval), gd (guard), se (session).
[[nodiscard]] std::string make_id(std::string_view prefix, std::int64_t time_us, const IdRandom& random);

/// 80 bits from the kernel's random number generator.
[[nodiscard]] IdRandom secure_id_random();

}  // namespace driftgate::store
