#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// The name that clients send, and who serves it.
struct ModelRow {
  std::string name{};
  std::string incumbent{};            ///< version id at 100%
  std::uint64_t epoch = 0;            ///< fencing epoch; only grows
  std::string lock_owner{};           ///< who took the epoch: a daemon's instance id
  std::optional<std::string> hold{};  ///< the reason when automation is blocked
  std::string held_by{};              ///< who set the hold
  std::string hold_promotion{};       ///< the promotion that led to it, or ""
  std::int64_t hold_us = 0;
  std::int64_t created_us = 0;
  std::int64_t updated_us = 0;
  std::uint64_t revision = 1;      ///< grows with every change: the ETag
  std::int64_t evidence_seq = -1;  ///< of the entry that recorded its last change
  bool operator==(const ModelRow&) const = default;
};

/// `already_exists` when the name is taken.
Result<void> insert_model(Tx& tx, const ModelRow& model);
Result<std::optional<ModelRow>> find_model(Reader& reader, std::string_view name);
/// find_model, or `not_found` with a message for people.
Result<ModelRow> get_model(Reader& reader, std::string_view name);
/// In the order of creation, those after `after` ("" = from the start), at most `limit`.
Result<std::vector<ModelRow>> list_models(Reader& reader, std::string_view after, std::int64_t limit);

/// Takes the lock for `owner` with epoch + 1 and returns the new epoch.
Result<std::uint64_t> take_model_lock(Tx& tx, std::string_view name, std::string_view owner,
                                      std::int64_t now_us);
/// The rest need the caller's epoch: `conflict` when a newer daemon holds the model.
Result<void> set_incumbent(Tx& tx, std::string_view name, std::uint64_t epoch, std::string_view version,
                           std::int64_t now_us);
/// Sets or replaces the hold. Needs no epoch: a person may always hold.
Result<void> set_hold(Tx& tx, std::string_view name, std::string_view reason, std::string_view by,
                      std::int64_t now_us, std::string_view promotion = {});
/// `conflict` when there is no hold.
Result<void> lift_hold(Tx& tx, std::string_view name, std::int64_t now_us);

/// Stores the number of the entry that recorded the last change; does not change the revision.
Result<void> set_model_evidence(Tx& tx, std::string_view name, std::int64_t seq);

}  // namespace driftgate::store
