#include "daemon/store/promotions/guards.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{"insert guard",
                      "INSERT INTO guards(id, model, promotion, version, contract, armed_us, ended_us, "
                      "reason, traffic, probes, "
                      "identity, orders, alarms, evidence_seq, rescoring) VALUES(?1, ?2, ?3, ?4, ?5, ?6, "
                      "NULL, '', ?7, ?8, ?9, ?10, ?11, ?12, ?13)"};
constexpr Sql kUpdate{"update guard",
                      "UPDATE guards SET traffic = ?2, probes = ?3, identity = ?4, orders = ?5, alarms = ?6, "
                      "evidence_seq = ?7, rescoring = ?8 WHERE id = ?1 AND ended_us IS NULL"};
constexpr Sql kEnd{
    "end guard",
    "UPDATE guards SET reason = ?2, ended_us = ?3, evidence_seq = ?4 WHERE id = ?1 AND ended_us IS "
    "NULL"};
constexpr Sql kArmed{"find armed guard",
                     "SELECT id, model, promotion, version, contract, armed_us, ended_us, reason, traffic, "
                     "probes, identity, orders, "
                     "alarms, evidence_seq, rescoring FROM guards WHERE model = ?1 AND ended_us IS NULL"};
constexpr Sql kNewest{"find newest guard",
                      "SELECT id, model, promotion, version, contract, armed_us, ended_us, reason, traffic, "
                      "probes, identity, orders, "
                      "alarms, evidence_seq, rescoring FROM guards WHERE model = ?1 ORDER BY ordinal DESC "
                      "LIMIT 1"};
constexpr Sql kNewestEnded{"find ended guard",
                           "SELECT id, model, promotion, version, contract, armed_us, ended_us, reason, "
                           "traffic, probes, identity, orders, alarms, evidence_seq, rescoring FROM guards "
                           "WHERE model = ?1 AND ended_us IS NOT NULL ORDER BY ordinal DESC LIMIT 1"};
constexpr Sql kOfVersion{"find guard of version",
                         "SELECT id, model, promotion, version, contract, armed_us, ended_us, reason, "
                         "traffic, probes, identity, orders, "
                         "alarms, evidence_seq, rescoring FROM guards WHERE version = ?1 ORDER BY "
                         "ordinal DESC LIMIT 1"};
constexpr Sql kAllArmed{"list armed guards",
                        "SELECT id, model, promotion, version, contract, armed_us, ended_us, reason, "
                        "traffic, probes, identity, orders, "
                        "alarms, evidence_seq, rescoring FROM guards WHERE ended_us IS NULL ORDER BY "
                        "ordinal"};
constexpr Sql kAddKeys{
    "add guard keys",
    "INSERT INTO guard_keys(guard, hour, part, keys) VALUES(?1, ?2, "
    "(SELECT coalesce(max(part), 0) + 1 FROM guard_keys WHERE guard = ?1 AND hour = ?2), ?3)"};
constexpr Sql kForgetKeys{"forget guard keys", "DELETE FROM guard_keys WHERE guard = ?1 AND hour < ?2 - 1"};
constexpr Sql kForgetAllKeys{"forget all guard keys", "DELETE FROM guard_keys WHERE guard = ?1"};
constexpr Sql kKeys{"guard keys", "SELECT keys FROM guard_keys WHERE guard = ?1 ORDER BY hour, part"};

std::string ended_text(std::string_view id) {
  return fmt::format("guard {} has ended", id);
}

}  // namespace

Result<void> insert_guard(Tx& tx, const GuardRow& guard) {
  return explain(
      tx.run(kInsert, {guard.id, guard.model, guard.promotion, guard.version, guard.contract, guard.armed_us,
                       Blob{guard.traffic}, Blob{guard.probes}, Blob{guard.identity}, guard.orders,
                       guard.alarms, guard.evidence_seq, Blob{guard.rescoring}}),
      fmt::format("the guard of promotion {} cannot be stored", guard.promotion));
}

Result<void> update_guard(Tx& tx, const GuardRow& guard) {
  return must_change(tx.run(kUpdate, {guard.id, Blob{guard.traffic}, Blob{guard.probes}, Blob{guard.identity},
                                      guard.orders, guard.alarms, guard.evidence_seq, Blob{guard.rescoring}}),
                     ErrorCode::conflict, ended_text(guard.id));
}

Result<void> end_guard(Tx& tx, std::string_view id, std::string_view reason, std::int64_t now_us,
                       std::int64_t evidence_seq) {
  TRY(tx.run(kForgetAllKeys, {id}));
  return must_change(tx.run(kEnd, {id, reason, now_us, evidence_seq}), ErrorCode::conflict, ended_text(id));
}

Result<std::optional<GuardRow>> find_armed_guard(Reader& reader, std::string_view model) {
  return find_row<GuardRow>(reader, kArmed, {model});
}

Result<std::optional<GuardRow>> find_newest_guard(Reader& reader, std::string_view model) {
  return find_row<GuardRow>(reader, kNewest, {model});
}

Result<std::optional<GuardRow>> find_ended_guard(Reader& reader, std::string_view model) {
  return find_row<GuardRow>(reader, kNewestEnded, {model});
}

Result<std::optional<GuardRow>> find_guard_of_version(Reader& reader, std::string_view version) {
  return find_row<GuardRow>(reader, kOfVersion, {version});
}

Result<std::vector<GuardRow>> list_armed_guards(Reader& reader) {
  return list_rows<GuardRow>(reader, kAllArmed, {});
}

Result<void> add_guard_keys(Tx& tx, std::string_view guard, std::int64_t hour, std::string_view keys) {
  if (keys.empty()) return {};
  TRY(tx.run(kForgetKeys, {guard, hour}));
  return explain(tx.run(kAddKeys, {guard, hour, Blob{keys}}),
                 fmt::format("the keys of guard {} cannot be stored", guard));
}

Result<std::string> guard_keys(Reader& reader, std::string_view guard) {
  std::string keys;
  TRY(reader.each(kKeys, {guard}, [&](const Row& row) {
    keys += row.bytes(0);
    return true;
  }));
  return keys;
}

}  // namespace driftgate::store
