#pragma once

#include <openssl/evp.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/evidence/log/merkle.hpp"

namespace driftgate::evidence::testing {

/// The definitions of RFC 9162 section 2.1 written out over the leaves themselves, without anything of the
/// program's but the type Hash.
inline Hash naive_sha256(const std::string& bytes) {
  Hash hash{};
  EVP_Digest(bytes.data(), bytes.size(), hash.data(), nullptr, EVP_sha256(), nullptr);
  return hash;
}

inline std::string chars(const Hash& hash) {
  return {hash.begin(), hash.end()};
}

inline std::size_t naive_split(std::size_t size) {
  std::size_t k = 1;
  while (2 * k < size) k *= 2;
  return k;
}

using Leaves = std::span<const std::string>;

inline Hash naive_root(Leaves leaves) {
  if (leaves.empty()) return naive_sha256("");
  if (leaves.size() == 1) return naive_sha256(std::string(1, '\0') + leaves[0]);
  const std::size_t k = naive_split(leaves.size());
  return naive_sha256(std::string(1, '\1') + chars(naive_root(leaves.first(k))) +
                      chars(naive_root(leaves.subspan(k))));
}

inline std::vector<Hash> naive_path(std::size_t m, Leaves leaves) {
  if (leaves.size() == 1) return {};
  const std::size_t k = naive_split(leaves.size());
  const bool left = m < k;
  auto path = left ? naive_path(m, leaves.first(k)) : naive_path(m - k, leaves.subspan(k));
  path.push_back(naive_root(left ? leaves.subspan(k) : leaves.first(k)));
  return path;
}

inline std::vector<Hash> naive_subproof(std::size_t m, Leaves leaves, bool whole) {
  if (m == leaves.size()) return whole ? std::vector<Hash>{} : std::vector<Hash>{naive_root(leaves)};
  const std::size_t k = naive_split(leaves.size());
  const bool left = m <= k;
  auto proof =
      left ? naive_subproof(m, leaves.first(k), whole) : naive_subproof(m - k, leaves.subspan(k), false);
  proof.push_back(naive_root(left ? leaves.subspan(k) : leaves.first(k)));
  return proof;
}

}  // namespace driftgate::evidence::testing
