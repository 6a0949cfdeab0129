#include "daemon/route/table/bucket.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <string>

#include "daemon/route/table/route.hpp"

namespace driftgate::route {
namespace {

constexpr std::uint64_t kMirrorSalt = 0x6d6972726f720000ULL;   // "mirror"
constexpr std::uint64_t kKeyHashSalt = 0x6b65796861736800ULL;  // "keyhash"

/// The same texts are hashed by the configuration in daemon/route/haproxy/config_text.cpp.
std::string salted(std::uint64_t seed, std::string_view salt, std::string_view key) {
  return fmt::format("{}{}{}", seed, salt, key);
}

std::uint32_t text_bucket(const std::string& text) {
  return XXH32(text.data(), text.size(), 0) % kFullShareBp;
}

std::uint32_t seeded_bucket(std::string_view key, std::uint64_t seed) {
  return static_cast<std::uint32_t>(XXH64(key.data(), key.size(), seed) % kFullShareBp);
}

}  // namespace

std::uint32_t bucket_of(std::string_view key, std::uint64_t seed, KeyHash hash) {
  return hash == KeyHash::text ? text_bucket(salted(seed, ":", key)) : seeded_bucket(key, seed);
}

std::uint32_t mirror_bucket_of(std::string_view key, std::uint64_t seed, KeyHash hash) {
  return hash == KeyHash::text ? text_bucket(salted(seed, ":m:", key))
                               : seeded_bucket(key, seed ^ kMirrorSalt);
}

std::uint64_t key_hash_of(std::string_view key, std::uint64_t seed, KeyHash hash) {
  if (hash == KeyHash::seeded) return XXH64(key.data(), key.size(), seed ^ kKeyHashSalt);
  const auto text = salted(seed, ":k:", key);
  return XXH64(text.data(), text.size(), 0);
}

}  // namespace driftgate::route
