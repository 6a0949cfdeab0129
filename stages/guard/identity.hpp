#pragma once

#include <map>
#include <string>
#include <vector>

namespace driftgate::stages {

/// What an engine says of itself, by name: its version, its model, its build, its flags.
using Identity = std::map<std::string, std::string>;

/// A member of an identity that is another one than at the promotion.
struct IdentityChange {
  std::string name, promoted, now;  ///< `now` is empty if the engine no longer tells it
  bool operator==(const IdentityChange&) const = default;
};

/// What differs from the promoted identity, by name. What the engine did not tell at the promotion is no
/// difference.
[[nodiscard]] std::vector<IdentityChange> identity_changes(const Identity& promoted, const Identity& now);

/// Compares what the engine says with what it said when it was promoted. A difference that is seen twice in a
/// row is told once: an engine that is being restarted may answer from two processes for a moment.
class IdentityWatch {
 public:
  explicit IdentityWatch(Identity promoted) : promoted_(std::move(promoted)) {}

  /// Compares an answer. The differences to tell; none if there are none, or if they were told or seen only
  /// once.
  [[nodiscard]] std::vector<IdentityChange> observe(const Identity& now);

  [[nodiscard]] const Identity& promoted() const { return promoted_; }
  /// The differences in the last answer.
  [[nodiscard]] const std::vector<IdentityChange>& last() const { return last_; }
  [[nodiscard]] bool told() const { return told_; }
  /// Restores what was kept of a watch: its last differences, and whether they were told.
  void continue_from(std::vector<IdentityChange> last, bool told);

 private:
  Identity promoted_;
  std::vector<IdentityChange> last_;
  bool told_ = false;
};

}  // namespace driftgate::stages
