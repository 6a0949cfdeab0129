#pragma once

#include <cstdint>
#include <string_view>

namespace driftgate::route {

/// How sticky keys become numbers. Whoever routes requests of one model does it in the same way.
enum class KeyHash : std::uint8_t {
  seeded,  ///< XXH64 with the seed: the embedded router alone
  text,    ///< XXH32 of "seed:key", XXH64 for the identity: what HAProxy can compute, whose xxh64 is signed
};

/// A number of the sticky key and the seed mod 10,000. The candidate serves the buckets below its share, so
/// that a growing share only ever adds users.
[[nodiscard]] std::uint32_t bucket_of(std::string_view key, std::uint64_t seed,
                                      KeyHash hash = KeyHash::seeded);

/// A second, unrelated bucket of the same key: which requests are mirrored does not depend on the arm.
[[nodiscard]] std::uint32_t mirror_bucket_of(std::string_view key, std::uint64_t seed,
                                             KeyHash hash = KeyHash::seeded);

/// The identity of a key in telemetry; salted by the seed, unrelated to both buckets.
[[nodiscard]] std::uint64_t key_hash_of(std::string_view key, std::uint64_t seed,
                                        KeyHash hash = KeyHash::seeded);

}  // namespace driftgate::route
