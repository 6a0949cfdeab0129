#include "daemon/route/table/bucket.hpp"

#include <xxhash.h>

#include "daemon/route/table/route.hpp"

namespace driftgate::route {
namespace {

constexpr std::uint64_t kMirrorSalt = 0x6d6972726f720000ULL;   // "mirror"
constexpr std::uint64_t kKeyHashSalt = 0x6b65796861736800ULL;  // "keyhash"

}  // namespace

std::uint32_t bucket_of(std::string_view key, std::uint64_t seed) {
  return static_cast<std::uint32_t>(XXH64(key.data(), key.size(), seed) % kFullShareBp);
}

std::uint32_t mirror_bucket_of(std::string_view key, std::uint64_t seed) {
  return bucket_of(key, seed ^ kMirrorSalt);
}

std::uint64_t key_hash_of(std::string_view key, std::uint64_t seed) {
  return XXH64(key.data(), key.size(), seed ^ kKeyHashSalt);
}

}  // namespace driftgate::route
