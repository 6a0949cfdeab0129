#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// A guard, which watches a version that a promotion made the incumbent, until another one serves.
struct GuardRow {
  std::string id{};  ///< "gd-…"
  std::string model{}, promotion{}, version{}, contract{};
  std::int64_t armed_us = 0;
  std::optional<std::int64_t> ended_us{};
  std::string reason{};                         ///< why it ended
  std::string traffic{}, probes{}, identity{};  ///< the memory of its tests; "" = nothing yet
  std::string orders{};                         ///< JSON: what alarms have ordered; "" = nothing
  std::uint64_t alarms = 0;                     ///< raised so far
  std::int64_t evidence_seq = -1;               ///< of its last entry
  std::string rescoring{};                      ///< the memory of rescored answers; "" = nothing yet
  bool operator==(const GuardRow&) const = default;
};

/// `already_exists` when the model has an armed guard, or the promotion had one.
Result<void> insert_guard(Tx& tx, const GuardRow& guard);
/// Replaces the memory of its tests, its orders, its alarms and evidence_seq. `conflict` when it has ended.
Result<void> update_guard(Tx& tx, const GuardRow& guard);
/// Ends the guard and forgets its keys; its memory stays. `conflict` when it has ended.
Result<void> end_guard(Tx& tx, std::string_view id, std::string_view reason, std::int64_t now_us,
                       std::int64_t evidence_seq);

Result<std::optional<GuardRow>> find_armed_guard(Reader& reader, std::string_view model);
/// The newest guard of the model, armed or ended.
Result<std::optional<GuardRow>> find_newest_guard(Reader& reader, std::string_view model);
/// The newest guard of the model that has ended.
Result<std::optional<GuardRow>> find_ended_guard(Reader& reader, std::string_view model);
/// The newest guard that watched the version.
Result<std::optional<GuardRow>> find_guard_of_version(Reader& reader, std::string_view version);
Result<std::vector<GuardRow>> list_armed_guards(Reader& reader);

/// Adds keys to those of the hour (since the epoch, UTC), as GuardState gave them, and forgets those of hours
/// before the last one.
Result<void> add_guard_keys(Tx& tx, std::string_view guard, std::int64_t hour, std::string_view keys);
/// All keys that are stored, in the order in which they were added.
Result<std::string> guard_keys(Reader& reader, std::string_view guard);

}  // namespace driftgate::store
