#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "daemon/base/unique_fd.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// The folder with one file of mirrored pairs for each stage: `<stage key with / as _>.jsonl`, mode
/// 0600, capped as a whole. Lines are written whole or not at all and are readable at once. Safe from
/// any thread.
class Spool {
 public:
  /// At most this many stages are remembered as dropped, and this many files held open.
  static constexpr std::size_t kMaxDropped = 1'024;
  static constexpr std::size_t kMaxOpen = 16;

  Spool(std::string folder, std::uint64_t cap_bytes) : folder_(std::move(folder)), cap_bytes_(cap_bytes) {}

  /// Makes the folder (0700) and counts what an earlier process left in it.
  schema::Result<void> prepare();
  /// Adds one line (without line feed). `limit_exceeded` at the cap, `not_found` once the stage is dropped.
  schema::Result<void> append(const std::string& stage_key, std::string line);
  /// The file of a stage, or `not_found` when nothing was recorded for it.
  [[nodiscard]] schema::Result<std::string> path(const std::string& stage_key) const;
  /// Deletes the file of a stage; pairs that arrive later are refused. Doing it twice changes nothing.
  schema::Result<void> drop(const std::string& stage_key);

 private:
  [[nodiscard]] std::string file_of(const std::string& stage_key) const;
  schema::Result<int> open_for(const std::string& stage_key);

  const std::string folder_;
  const std::uint64_t cap_bytes_;
  mutable std::mutex mutex_;
  std::uint64_t used_bytes_ = 0;
  std::map<std::string, base::UniqueFd> open_;
  std::deque<std::string> dropped_;
};

}  // namespace driftgate::route
