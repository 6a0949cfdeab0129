// Proofs as the reference implementation of RFC 6962 publishes them, and trees far larger than any that is
// built.
#include <doctest/doctest.h>

#include <limits>
#include <map>

#include "daemon/evidence/log/merkle.hpp"
#include "daemon/evidence/log/subtrees.hpp"
#include "schema/sha256.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using schema::ErrorCode;

namespace {

Hash hash_of(std::string_view hex) {
  const std::string bytes = schema::from_hex(hex).value();
  Hash hash{};
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(hash.data()));
  return hash;
}

std::vector<Hash> hashes_of(const std::vector<const char*>& all) {
  std::vector<Hash> hashes;
  for (const char* hex : all) hashes.push_back(hash_of(hex));
  return hashes;
}

/// Leaves of the reference implementation's tests, in hexadecimal.
const std::vector<const char*> kLeaves = {
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"};
const std::map<std::size_t, const char*> kRoots = {
    {1, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"},
    {2, "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"},
    {3, "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"},
    {5, "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"},
    {6, "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"},
    {8, "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"}};

Hash leaf(std::size_t index) {
  return leaf_hash(schema::from_hex(kLeaves[index]).value());
}

Result<Hash> node(unsigned level, std::uint64_t index) {
  if (level == 0) return leaf(index);
  return node_hash(node(level - 1, 2 * index).value(), node(level - 1, 2 * index + 1).value());
}

}  // namespace

TEST_CASE("the inclusion proofs of the reference implementation come out and verify") {
  struct Vector {
    std::uint64_t index, size;
    std::vector<const char*> proof;
  };
  const Vector vectors[] = {{0, 1, {}},
                            {0,
                             8,
                             {"96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                              "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                              "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"}},
                            {5,
                             8,
                             {"bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
                              "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                              "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"}},
                            {2, 3, {"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"}},
                            {1,
                             5,
                             {"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
                              "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                              "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"}}};
  for (const Vector& vector : vectors) {
    CAPTURE(vector.index);
    CAPTURE(vector.size);
    const auto proof = hashes_of(vector.proof);
    CHECK(inclusion_proof(vector.index, vector.size, node).value() == proof);
    CHECK(verify_inclusion(leaf(vector.index), vector.index, vector.size, proof,
                           hash_of(kRoots.at(vector.size))));
  }
}

TEST_CASE("the consistency proofs of the reference implementation come out and verify") {
  struct Vector {
    std::uint64_t from, to;
    std::vector<const char*> proof;
  };
  const Vector vectors[] = {{1, 1, {}},
                            {1,
                             8,
                             {"96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                              "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                              "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"}},
                            {6,
                             8,
                             {"0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
                              "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                              "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"}},
                            {2,
                             5,
                             {"5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                              "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"}}};
  for (const Vector& vector : vectors) {
    CAPTURE(vector.from);
    CAPTURE(vector.to);
    const auto proof = hashes_of(vector.proof);
    CHECK(consistency_proof(vector.from, vector.to, node).value() == proof);
    CHECK(verify_consistency(vector.from, vector.to, hash_of(kRoots.at(vector.from)),
                             hash_of(kRoots.at(vector.to)), proof));
  }
}

TEST_CASE("proofs of trees of up to 2^63 leaves are as long as they must be, and no other length verifies") {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  const auto equal = [](unsigned level, std::uint64_t) -> Result<Hash> {  // a tree of equal leaves
    Hash hash = leaf_hash("x");
    for (unsigned i = 0; i < level; ++i) hash = node_hash(hash, hash);
    return hash;
  };
  for (const std::uint64_t size : {kMost, kMost - 1, kMost + 1, (kMost << 1) - 1}) {
    CAPTURE(size);
    const Hash root = root_at(size, equal).value();
    for (const std::uint64_t index : {std::uint64_t{0}, size / 3, size - 1}) {
      CAPTURE(index);
      auto proof = inclusion_proof(index, size, equal).value();
      CHECK(proof.size() <= 63);
      CHECK(verify_inclusion(leaf_hash("x"), index, size, proof, root));
      CHECK(!verify_inclusion(leaf_hash("y"), index, size, proof, root));
      CHECK(!verify_inclusion(leaf_hash("x"), size, size, proof, root));
      proof.push_back(root);
      CHECK(!verify_inclusion(leaf_hash("x"), index, size, proof, root));
      auto extension = consistency_proof(index + 1, size, equal).value();
      const Hash older = root_at(index + 1, equal).value();
      CHECK(verify_consistency(index + 1, size, older, root, extension));
      extension.push_back(root);
      CHECK(!verify_consistency(index + 1, size, older, root, extension));
    }
  }
}

TEST_CASE("numbers at their edges are refused, whatever the proof") {
  constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();
  const Hash hash = leaf_hash("x");
  for (const std::size_t length : {0, 1, 63, 64, 65, 200}) {
    CAPTURE(length);
    const std::vector<Hash> proof(length, hash);
    CHECK(!verify_inclusion(hash, 0, 0, proof, empty_root()));
    CHECK(!verify_inclusion(hash, kEnd, kEnd, proof, hash));
    CHECK(!verify_inclusion(hash, kEnd - 1, kEnd, proof, hash));
    CHECK(!verify_consistency(kEnd, 1, hash, hash, proof));
    CHECK(!verify_consistency(1, kEnd, hash, leaf_hash("y"), proof));
    CHECK(verify_consistency(5, 5, hash, hash, proof) == (length == 0));
    CHECK(verify_consistency(0, 5, empty_root(), hash, proof) == (length == 0));
    CHECK(!verify_consistency(0, 0, empty_root(), hash, proof));
  }
  CHECK(inclusion_proof(5, 5, node).error().code == ErrorCode::invalid_argument);
  CHECK(inclusion_proof(kEnd, 8, node).error().code == ErrorCode::invalid_argument);
  CHECK(consistency_proof(9, 8, node).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("a node that cannot be read is the answer, and not a proof without it") {
  const auto missing = [](unsigned level, std::uint64_t index) -> Result<Hash> {
    if (level == 1 && index == 1) return schema::fail(ErrorCode::corrupt, "node 5 is missing");
    return node(level, index);
  };
  CHECK(root_at(7, missing).value() == root_at(7, node).value());  // 4 + 2 + 1: not needed
  CHECK(inclusion_proof(0, 8, missing).error().message == "node 5 is missing");
  CHECK(inclusion_proof(7, 8, missing));
  CHECK(consistency_proof(2, 8, missing).error().message == "node 5 is missing");
}
