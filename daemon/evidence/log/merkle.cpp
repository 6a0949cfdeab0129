#include "daemon/evidence/log/merkle.hpp"

#include <bit>
#include <string>

namespace driftgate::evidence {

namespace {

constexpr char kLeafPrefix = 0x00;
constexpr char kNodePrefix = 0x01;

/// Where a subtree of `size` leaves divides: the largest power of two below it.
std::uint64_t split_of(std::uint64_t size) {
  return std::bit_floor(size - 1);
}

/// Root of the subtree of `size` leaves from `start`, as RFC 6962 divides the tree.
Result<Hash> subtree_root(std::uint64_t start, std::uint64_t size, const NodeSource& nodes) {
  if (std::has_single_bit(size)) {
    const auto level = static_cast<unsigned>(std::countr_zero(size));
    return nodes(level, start >> level);
  }
  const std::uint64_t split = split_of(size);
  auto left = TRY(subtree_root(start, split, nodes));
  auto right = TRY(subtree_root(start + split, size - split, nodes));
  return node_hash(left, right);
}

Result<void> add_root(std::vector<Hash>& proof, std::uint64_t start, std::uint64_t size,
                      const NodeSource& nodes) {
  auto root = TRY(subtree_root(start, size, nodes));
  proof.push_back(root);
  return {};
}

/// PATH of RFC 9162 section 2.1.3.1, on the subtree from `start`.
Result<void> add_path(std::vector<Hash>& proof, std::uint64_t index, std::uint64_t start, std::uint64_t size,
                      const NodeSource& nodes) {
  if (size == 1) return {};
  const std::uint64_t split = split_of(size);
  const bool left = index < split;
  TRY(left ? add_path(proof, index, start, split, nodes)
           : add_path(proof, index - split, start + split, size - split, nodes));
  return left ? add_root(proof, start + split, size - split, nodes) : add_root(proof, start, split, nodes);
}

/// SUBPROOF of RFC 9162 section 2.1.4.1; `whole`: the subtree is all of the older tree, whose root is known.
Result<void> add_subproof(std::vector<Hash>& proof, std::uint64_t from, std::uint64_t start,
                          std::uint64_t size, bool whole, const NodeSource& nodes) {
  if (from == size) return whole ? Result<void>() : add_root(proof, start, size, nodes);
  const std::uint64_t split = split_of(size);
  const bool left = from <= split;
  TRY(left ? add_subproof(proof, from, start, split, whole, nodes)
           : add_subproof(proof, from - split, start + split, size - split, false, nodes));
  return left ? add_root(proof, start + split, size - split, nodes) : add_root(proof, start, split, nodes);
}

}  // namespace

Hash leaf_hash(std::string_view entry) {
  thread_local schema::Sha256 digest;
  return digest.update(std::string_view(&kLeafPrefix, 1)).update(entry).finish();
}

Hash node_hash(const Hash& left, const Hash& right) {
  thread_local schema::Sha256 digest;
  return digest.update(std::string_view(&kNodePrefix, 1)).update(left).update(right).finish();
}

Hash empty_root() {
  return schema::sha256({});
}

std::int64_t node_position(unsigned level, std::uint64_t index) {
  // The last leaf of the subtree; before it, 2n − popcount(n) nodes are complete.
  const std::uint64_t last = ((index + 1) << level) - 1;
  return static_cast<std::int64_t>(2 * last - static_cast<unsigned>(std::popcount(last)) + level);
}

Result<Hash> root_at(std::uint64_t size, const NodeSource& nodes) {
  if (size == 0) return empty_root();
  return subtree_root(0, size, nodes);
}

Result<std::vector<Hash>> inclusion_proof(std::uint64_t index, std::uint64_t size, const NodeSource& nodes) {
  if (index >= size) {
    return schema::fail(
        schema::ErrorCode::invalid_argument,
        "entry " + std::to_string(index) + " is not in the tree of " + std::to_string(size) + " entries");
  }
  std::vector<Hash> proof;
  TRY(add_path(proof, index, 0, size, nodes));
  return proof;
}

Result<std::vector<Hash>> consistency_proof(std::uint64_t from, std::uint64_t to, const NodeSource& nodes) {
  if (from > to) {
    return schema::fail(
        schema::ErrorCode::invalid_argument,
        "a tree of " + std::to_string(to) + " entries does not extend one of " + std::to_string(from));
  }
  std::vector<Hash> proof;
  if (from == 0 || from == to) return proof;
  TRY(add_subproof(proof, from, 0, to, true, nodes));
  return proof;
}

namespace {

/// The way from a node of a level up to the root, as a proof gives its siblings.
class Climb {
 public:
  Climb(std::uint64_t node, std::uint64_t last) : node_(node), last_(last) {}
  [[nodiscard]] bool is_at_root() const { return last_ == 0; }
  [[nodiscard]] bool is_right() const { return (node_ & 1) != 0; }
  void up() {
    node_ >>= 1;
    last_ >>= 1;
  }
  /// Goes past the next sibling of the proof. True when that stands on the left.
  bool pass_sibling() {
    const bool left = is_right() || node_ == last_;
    while (left && !is_right() && node_ != 0) up();
    up();
    return left;
  }

 private:
  std::uint64_t node_, last_;  ///< in their level
};

}  // namespace

bool verify_inclusion(const Hash& leaf, std::uint64_t index, std::uint64_t size,
                      const std::vector<Hash>& proof, const Hash& root) {
  if (index >= size) return false;
  Climb climb(index, size - 1);
  Hash hash = leaf;
  for (const Hash& sibling : proof) {
    if (climb.is_at_root()) return false;
    hash = climb.pass_sibling() ? node_hash(sibling, hash) : node_hash(hash, sibling);
  }
  return climb.is_at_root() && hash == root;
}

bool verify_consistency(std::uint64_t from, std::uint64_t to, const Hash& from_root, const Hash& to_root,
                        const std::vector<Hash>& proof) {
  if (from > to) return false;
  if (from == to) return proof.empty() && from_root == to_root;
  if (from == 0) return proof.empty() && from_root == empty_root();
  // When the older tree is a complete subtree its root begins the proof, though it is not sent.
  std::vector<Hash> path;
  if (std::has_single_bit(from)) path.push_back(from_root);
  path.insert(path.end(), proof.begin(), proof.end());
  if (path.empty()) return false;
  Climb climb(from - 1, to - 1);
  while (climb.is_right()) climb.up();
  Hash older = path.front();
  Hash newer = path.front();
  for (std::size_t i = 1; i < path.size(); ++i) {
    if (climb.is_at_root()) return false;
    if (climb.pass_sibling()) {
      older = node_hash(path[i], older);
      newer = node_hash(path[i], newer);
    } else {
      newer = node_hash(newer, path[i]);
    }
  }
  return climb.is_at_root() && older == from_root && newer == to_root;
}

}  // namespace driftgate::evidence
