#include "daemon/evidence/log/subtrees.hpp"

#include <doctest/doctest.h>

#include "tests/daemon/evidence/naive_merkle.hpp"

using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;

TEST_CASE("every range of every tree up to 33 leaves and the subtrees beside it make the tree's root") {
  constexpr std::size_t kMost = 33;
  std::vector<std::string> leaves;
  for (std::size_t i = 0; i < kMost; ++i) leaves.push_back("leaf " + std::to_string(i));
  for (std::size_t size = 0; size <= kMost; ++size) {
    CAPTURE(size);
    const Hash root = naive_root(Leaves(leaves).first(size));
    for (std::size_t first = 0; first <= size; ++first) {
      CAPTURE(first);
      for (std::size_t end = first; end <= size; ++end) {
        CAPTURE(end);
        SubtreeStack stack;
        const auto add = [&](std::size_t from, std::size_t to) {
          for (const Subtree& part : subtrees_of(from, to)) {
            const std::size_t width = std::size_t{1} << part.level;
            stack.push(part.level, naive_root(Leaves(leaves).subspan(part.index * width, width)));
          }
        };
        add(0, first);
        for (std::size_t i = first; i < end; ++i) stack.push_leaf(leaf_hash(leaves[i]));
        add(end, size);
        REQUIRE(stack.size() == size);
        REQUIRE(stack.root() == root);
      }
    }
  }
}

TEST_CASE("subtrees follow each other and are as few as can be") {
  CHECK(subtrees_of(5, 5).empty());
  CHECK(subtrees_of(0, 8) == std::vector<Subtree>{{3, 0}});
  CHECK(subtrees_of(0, 7) == std::vector<Subtree>{{2, 0}, {1, 2}, {0, 6}});
  CHECK(subtrees_of(3, 11) == std::vector<Subtree>{{0, 3}, {2, 1}, {1, 4}, {0, 10}});
}
