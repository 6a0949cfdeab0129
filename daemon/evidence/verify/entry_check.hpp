#pragma once

#include <cstdint>
#include <vector>

#include "daemon/evidence/log/merkle.hpp"
#include "daemon/evidence/verify/difference.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::evidence {

/// Hashes every entry that a signed head covers, in order and a block at a time, and compares the hashes with
/// the stored tree and its root with the signed one. Each difference is named and the check goes on behind
/// it. Its memory does not depend on the length of the log.
class EntryCheck {
 public:
  /// Of the first `size` entries, whose signed root is `root`.
  EntryCheck(std::uint64_t size, const Hash& root) : size_(size), root_(root) {}

  /// Checks the next block; false when everything is checked. Differences go to `found`. Errors are of
  /// reading alone; the same block may be tried again after one.
  [[nodiscard]] Result<bool> step(store::Reader& reader, std::vector<Difference>& found);

  [[nodiscard]] std::uint64_t done() const { return done_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  void check_group(std::uint64_t group, const std::vector<Hash>& leaves, const std::vector<Hash>& nodes,
                   std::int64_t first_node, std::vector<Difference>& found);
  void finish(std::vector<Difference>& found);

  const std::uint64_t size_;
  const Hash root_;
  std::uint64_t done_ = 0;
  std::vector<Hash> edge_;  ///< of the tree of groups
  std::vector<Hash> rest_;  ///< of the tree of the last entries, fewer than a group
  bool is_finished_ = false;
};

}  // namespace driftgate::evidence
