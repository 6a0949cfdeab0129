#include "daemon/store/registry/models.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{
    "insert model",
    "INSERT INTO models(name, incumbent, epoch, lock_owner, hold, held_by, hold_promotion, hold_us, "
    "created_us, updated_us, revision, evidence_seq) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"};
constexpr Sql kFind{
    "find model",
    "SELECT name, incumbent, epoch, lock_owner, hold, held_by, hold_promotion, hold_us, created_us, "
    "updated_us, revision, evidence_seq FROM models WHERE name = ?1"};
constexpr Sql kList{
    "list models",
    "SELECT name, incumbent, epoch, lock_owner, hold, held_by, hold_promotion, hold_us, created_us, "
    "updated_us, revision, evidence_seq FROM models "
    "WHERE ordinal > coalesce((SELECT ordinal FROM models WHERE name = ?1), 0) "
    "ORDER BY ordinal LIMIT ?2"};
constexpr Sql kTakeLock{
    "take model lock",
    "UPDATE models SET epoch = epoch + 1, lock_owner = ?2, updated_us = ?3 WHERE name = ?1 "
    "RETURNING epoch"};
constexpr Sql kSetIncumbent{"set incumbent",
                            "UPDATE models SET incumbent = ?3, updated_us = ?4, revision = revision + 1 "
                            "WHERE name = ?1 AND epoch = ?2"};
constexpr Sql kSetHold{"set hold",
                       "UPDATE models SET hold = ?2, held_by = ?3, hold_promotion = ?4, hold_us = ?5, "
                       "updated_us = ?5, revision = revision + 1 WHERE name = ?1"};
constexpr Sql kLiftHold{"lift hold",
                        "UPDATE models SET hold = NULL, held_by = '', hold_promotion = '', hold_us = 0, "
                        "updated_us = ?2, revision = revision + 1 WHERE name = ?1 AND hold IS NOT NULL"};
constexpr Sql kSetEvidence{"set model evidence", "UPDATE models SET evidence_seq = ?2 WHERE name = ?1"};

std::string no_model(std::string_view name) {
  return fmt::format("there is no model '{}': install its first version with 'driftgate model create'", name);
}

}  // namespace

Result<void> insert_model(Tx& tx, const ModelRow& model) {
  return explain(tx.run(kInsert, {model.name, model.incumbent, model.epoch, model.lock_owner, model.hold,
                                  model.held_by, model.hold_promotion, model.hold_us, model.created_us,
                                  model.updated_us, model.revision, model.evidence_seq}),
                 fmt::format("model '{}' cannot be created", model.name));
}

Result<std::optional<ModelRow>> find_model(Reader& reader, std::string_view name) {
  return find_row<ModelRow>(reader, kFind, {name});
}

Result<ModelRow> get_model(Reader& reader, std::string_view name) {
  return must_exist(find_model(reader, name), no_model(name));
}

Result<std::vector<ModelRow>> list_models(Reader& reader, std::string_view after, std::int64_t limit) {
  return list_rows<ModelRow>(reader, kList, {after, limit});
}

Result<std::uint64_t> take_model_lock(Tx& tx, std::string_view name, std::string_view owner,
                                      std::int64_t now_us) {
  return must_exist(find_row<std::uint64_t>(tx, kTakeLock, {name, owner, now_us}), no_model(name));
}

Result<void> set_incumbent(Tx& tx, std::string_view name, std::uint64_t epoch, std::string_view version,
                           std::int64_t now_us) {
  auto model = TRY(get_model(tx, name));
  return must_change(
      tx.run(kSetIncumbent, {name, epoch, version, now_us}), ErrorCode::conflict,
      fmt::format("model '{}' is held by a newer daemon (epoch {}, ours is {})", name, model.epoch, epoch));
}

Result<void> set_hold(Tx& tx, std::string_view name, std::string_view reason, std::string_view by,
                      std::int64_t now_us, std::string_view promotion) {
  return must_change(tx.run(kSetHold, {name, reason, by, promotion, now_us}), ErrorCode::not_found,
                     no_model(name));
}

Result<void> lift_hold(Tx& tx, std::string_view name, std::int64_t now_us) {
  TRY(get_model(tx, name));
  return must_change(tx.run(kLiftHold, {name, now_us}), ErrorCode::conflict,
                     fmt::format("model '{}' has no hold to lift", name));
}

Result<void> set_model_evidence(Tx& tx, std::string_view name, std::int64_t seq) {
  return must_change(tx.run(kSetEvidence, {name, seq}), ErrorCode::not_found, no_model(name));
}

}  // namespace driftgate::store
