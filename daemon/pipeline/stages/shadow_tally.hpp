#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "daemon/route/control/telemetry.hpp"
#include "stages/shadow_needs.hpp"

namespace driftgate::pipeline {

/// Sticky keys that a shadow stage has seen, on all traffic and on each critical slice, to know when enough
/// of them have a mirrored pair. Keys are mirrored whole, by a bucket that has nothing to do with their
/// slice, so that the share of requests that were mirrored is the share of keys that were. The counts are
/// kept with the stage's progress; which keys they are is kept in memory, so that keys seen before and after
/// a restart of the daemon, or a window that could not be stored, count twice.
class ShadowTally {
 public:
  ShadowTally() = default;
  /// Of one slice; further ones are not counted, so that memory stays bounded.
  static constexpr std::size_t kMaxKeys = 1'000'000;
  /// Goes on from what `text` said, or from nothing where it is damaged: the stage then lasts longer.
  explicit ShadowTally(const std::string& text);

  void add(const route::Window& window, const std::vector<schema::SliceWhere>& critical);
  /// Whether `pairs` mirrored ones of the requests seen give each need its keys.
  [[nodiscard]] bool enough(const std::vector<stages::ShadowNeed>& needs, std::uint64_t pairs) const;
  /// The counts as a JSON object: "requests", and "keys" by slice.
  [[nodiscard]] std::string text() const;

 private:
  void count(const std::string& scope, std::uint64_t key_hash);

  std::uint64_t requests_ = 0;
  std::map<std::string, std::uint64_t> keys_;  ///< by slice_text; "" is all traffic
  std::map<std::string, std::unordered_set<std::uint64_t>> seen_;
};

}  // namespace driftgate::pipeline
