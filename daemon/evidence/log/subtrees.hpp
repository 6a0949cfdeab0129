#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/evidence/log/merkle.hpp"

namespace driftgate::evidence {

/// The complete subtree of 2^level leaves that starts at leaf index·2^level.
struct Subtree {
  unsigned level = 0;
  std::uint64_t index = 0;
  bool operator==(const Subtree&) const = default;
};

/// The fewest complete subtrees that cover the leaves [begin, end), from left to right.
[[nodiscard]] std::vector<Subtree> subtrees_of(std::uint64_t begin, std::uint64_t end);

/// Puts a tree together from complete subtrees, from left to right: its root shows that a range of leaves is
/// all that stands between those before and those after it.
class SubtreeStack {
 public:
  /// Adds the complete subtree of 2^level leaves. Its first leaf must be the number of leaves so far, which
  /// must be a multiple of 2^level: as `subtrees_of` gives them.
  void push(unsigned level, const Hash& hash);
  void push_leaf(const Hash& hash) { push(0, hash); }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// RFC 6962 root of what was added.
  [[nodiscard]] Hash root() const;

 private:
  struct Part {
    unsigned level = 0;
    Hash hash{};
  };
  std::vector<Part> parts_{};
  std::uint64_t size_ = 0;
};

}  // namespace driftgate::evidence
