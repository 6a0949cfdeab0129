#pragma once

#include <cstdint>
#include <string_view>

namespace driftgate::route {

/// XXH64(sticky key, seed) mod 10,000. The candidate serves the buckets below its share, so that a
/// growing share only ever adds users.
[[nodiscard]] std::uint32_t bucket_of(std::string_view key, std::uint64_t seed);

/// A second, unrelated bucket of the same key: which requests are mirrored does not depend on the arm.
[[nodiscard]] std::uint32_t mirror_bucket_of(std::string_view key, std::uint64_t seed);

/// The identity of a key in telemetry; salted by the seed, unrelated to both buckets.
[[nodiscard]] std::uint64_t key_hash_of(std::string_view key, std::uint64_t seed);

}  // namespace driftgate::route
