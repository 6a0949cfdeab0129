#include "daemon/evidence/log/merkle.hpp"

#include <doctest/doctest.h>

#include <set>

#include "schema/sha256.hpp"
#include "tests/daemon/evidence/naive_merkle.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;

namespace {

constexpr std::size_t kPairs = 65;

/// A tree in memory, grown as the log grows it: each node appended when it completes.
struct Tree {
  std::vector<std::string> leaves;
  std::vector<Hash> nodes;

  void add(const std::string& leaf) {
    const std::uint64_t index = leaves.size();
    leaves.push_back(leaf);
    Hash hash = leaf_hash(leaf);
    REQUIRE(node_position(0, index) == static_cast<std::int64_t>(nodes.size()));
    nodes.push_back(hash);
    for (unsigned level = 0; (index >> level & 1) != 0; ++level) {
      hash = node_hash(nodes[static_cast<std::size_t>(node_position(level, (index >> level) - 1))], hash);
      REQUIRE(node_position(level + 1, index >> (level + 1)) == static_cast<std::int64_t>(nodes.size()));
      nodes.push_back(hash);
    }
  }
  [[nodiscard]] NodeSource source() const {
    return [this](unsigned level, std::uint64_t index) -> Result<Hash> {
      return nodes.at(static_cast<std::size_t>(node_position(level, index)));
    };
  }
  [[nodiscard]] Leaves first(std::size_t n) const { return Leaves(leaves).first(n); }
};

Tree tree_of(std::size_t size) {
  Tree tree;
  for (std::size_t i = 0; i < size; ++i) tree.add("leaf " + std::to_string(i * i));
  return tree;
}

std::string unhex(std::string_view hex) {
  return schema::from_hex(hex).value();
}

}  // namespace

TEST_CASE("the roots of the eight-leaf example of RFC 6962's reference implementation come out") {
  // Leaves and roots as published with Certificate Transparency (merkletree tests of the reference
  // implementation).
  const std::vector<std::string> leaves = {"",
                                           unhex("00"),
                                           unhex("10"),
                                           unhex("2021"),
                                           unhex("3031"),
                                           unhex("40414243"),
                                           unhex("5051525354555657"),
                                           unhex("606162636465666768696a6b6c6d6e6f")};
  const std::vector<std::string> roots = {"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                                          "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
                                          "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
                                          "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
                                          "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
                                          "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
                                          "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
                                          "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
                                          "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"};
  Tree tree;
  CHECK(schema::to_hex(root_at(0, tree.source()).value()) == roots[0]);
  for (std::size_t size = 1; size <= leaves.size(); ++size) {
    tree.add(leaves[size - 1]);
    CHECK(schema::to_hex(root_at(size, tree.source()).value()) == roots[size]);
  }
}

TEST_CASE("nodes are numbered in the order in which they complete, each once") {
  std::set<std::int64_t> seen;
  for (unsigned level = 0; level <= 6; ++level) {
    for (std::uint64_t index = 0; index < (64u >> level); ++index) seen.insert(node_position(level, index));
  }
  CHECK(seen.size() == 127);
  CHECK(*seen.rbegin() == 126);
}

TEST_CASE("roots and proofs of every pair up to 65 are those of the definitions, and verify") {
  const Tree tree = tree_of(kPairs);
  for (std::size_t size = 0; size <= kPairs; ++size) {
    CAPTURE(size);
    const Hash root = root_at(size, tree.source()).value();
    REQUIRE(root == naive_root(tree.first(size)));
    for (std::size_t index = 0; index < size; ++index) {
      CAPTURE(index);
      const auto proof = inclusion_proof(index, size, tree.source()).value();
      REQUIRE(proof == naive_path(index, tree.first(size)));
      REQUIRE(verify_inclusion(leaf_hash(tree.leaves[index]), index, size, proof, root));
    }
    for (std::size_t from = 1; from <= size; ++from) {
      CAPTURE(from);
      const auto proof = consistency_proof(from, size, tree.source()).value();
      REQUIRE(proof == naive_subproof(from, tree.first(size), true));
      REQUIRE(verify_consistency(from, size, naive_root(tree.first(from)), root, proof));
    }
    REQUIRE(
        verify_consistency(0, size, empty_root(), root, consistency_proof(0, size, tree.source()).value()));
  }
}

TEST_CASE("an inclusion proof with anything changed does not verify") {
  const Tree tree = tree_of(13);
  const Hash root = root_at(13, tree.source()).value();
  for (std::size_t index = 0; index < 13; ++index) {
    CAPTURE(index);
    const Hash leaf = leaf_hash(tree.leaves[index]);
    const auto proof = inclusion_proof(index, 13, tree.source()).value();
    for (std::size_t other = 0; other < 20; ++other) {
      if (other != index) CHECK(!verify_inclusion(leaf, other, 13, proof, root));
    }
    CHECK(!verify_inclusion(leaf_hash("another"), index, 13, proof, root));
    CHECK(!verify_inclusion(leaf, index, 13, proof, leaf));
    for (std::size_t i = 0; i < proof.size(); ++i) {
      auto changed = proof;
      changed[i][31] ^= 1;
      CHECK(!verify_inclusion(leaf, index, 13, changed, root));
      auto shorter = proof;
      shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK(!verify_inclusion(leaf, index, 13, shorter, root));
    }
    auto longer = proof;
    longer.push_back(leaf);
    CHECK(!verify_inclusion(leaf, index, 13, longer, root));
  }
}

TEST_CASE("a consistency proof with anything changed does not verify") {
  const Tree tree = tree_of(21);
  for (std::size_t from = 1; from < 21; ++from) {
    CAPTURE(from);
    const Hash older = root_at(from, tree.source()).value();
    const Hash newer = root_at(21, tree.source()).value();
    const auto proof = consistency_proof(from, 21, tree.source()).value();
    CHECK(!verify_consistency(from, 21, newer, newer, proof));
    CHECK(!verify_consistency(from, 21, older, older, proof));
    CHECK(!verify_consistency(from, 21, older, newer, {}));
    if (from > 1) CHECK(!verify_consistency(from - 1, 21, older, newer, proof));
    for (std::size_t i = 0; i < proof.size(); ++i) {
      auto changed = proof;
      changed[i][0] ^= 0x80;
      CHECK(!verify_consistency(from, 21, older, newer, changed));
      auto shorter = proof;
      shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK(!verify_consistency(from, 21, older, newer, shorter));
    }
    auto longer = proof;
    longer.push_back(older);
    CHECK(!verify_consistency(from, 21, older, newer, longer));
  }
  CHECK(!verify_consistency(22, 21, empty_root(), empty_root(), {}));
  CHECK(!verify_consistency(0, 3, leaf_hash(""), leaf_hash(""), {}));
}

TEST_CASE("proofs outside the tree are refused") {
  const Tree tree = tree_of(3);
  CHECK(!inclusion_proof(3, 3, tree.source()));
  CHECK(!inclusion_proof(0, 0, tree.source()));
  CHECK(!consistency_proof(4, 3, tree.source()));
}
