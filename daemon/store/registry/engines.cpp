#include "daemon/store/registry/engines.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{
    "insert engine",
    "INSERT INTO engines(name, base_url, kernel, checkpoint, checkpoint_uri, abilities, probed_us, "
    "registered_us, evidence_seq, max_requests_per_second) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"};
constexpr Sql kReplace{
    "replace engine",
    "UPDATE engines SET base_url = ?2, kernel = ?3, checkpoint = ?4, checkpoint_uri = ?5, "
    "abilities = ?6, probed_us = ?7, registered_us = ?8, evidence_seq = ?9, max_requests_per_second = ?10 "
    "WHERE name = ?1"};
constexpr Sql kOpenUser{
    "open promotion of engine",
    "SELECT p.id FROM promotions AS p "
    "LEFT JOIN versions AS v ON v.id = p.baseline LEFT JOIN versions AS f ON f.id = p.fallback "
    "WHERE p.state IN ('queued', 'running', 'paused', 'awaiting_approval', 'inconclusive', "
    "'rolling_back', 'finalizing') AND (p.engine = ?1 OR v.engine = ?1 OR f.engine = ?1) LIMIT 1"};
constexpr Sql kFind{
    "find engine",
    "SELECT name, base_url, kernel, checkpoint, checkpoint_uri, abilities, probed_us, registered_us, "
    "evidence_seq, max_requests_per_second FROM engines WHERE name = ?1"};
constexpr Sql kList{
    "list engines",
    "SELECT name, base_url, kernel, checkpoint, checkpoint_uri, abilities, probed_us, registered_us, "
    "evidence_seq, max_requests_per_second FROM engines "
    "WHERE ordinal > coalesce((SELECT ordinal FROM engines WHERE name = ?1), 0) "
    "ORDER BY ordinal LIMIT ?2"};

Result<std::int64_t> run_with_all_fields(Tx& tx, const Sql& sql, const EngineRow& engine) {
  return tx.run(sql, {engine.name, engine.base_url, engine.kernel, engine.checkpoint, engine.checkpoint_uri,
                      engine.abilities, engine.probed_us, engine.registered_us, engine.evidence_seq,
                      engine.max_requests_per_second});
}

std::string no_kernel(const EngineRow& engine) {
  return fmt::format("engine '{}' cannot be stored: is kernel '{}' registered?", engine.name, engine.kernel);
}

}  // namespace

Result<bool> insert_engine(Tx& tx, const EngineRow& engine) {
  auto old = TRY(find_engine(tx, engine.name));
  if (old) {
    const EngineRow& known = *old;
    if (known.base_url == engine.base_url && known.kernel == engine.kernel &&
        known.checkpoint == engine.checkpoint && known.checkpoint_uri == engine.checkpoint_uri) {
      return false;
    }
    return schema::failf(ErrorCode::already_exists, "engine '{}' is registered as {} with kernel '{}'",
                         known.name, known.base_url, known.kernel);
  }
  TRY(explain(run_with_all_fields(tx, kInsert, engine), no_kernel(engine)));
  return true;
}

Result<void> replace_engine(Tx& tx, const EngineRow& engine) {
  auto user = TRY(find_row<std::string>(tx, kOpenUser, {engine.name}));
  if (user) {
    return schema::failf(
        ErrorCode::conflict,
        "engine '{}' is used by promotion {}: wait for its end or abort it, or register another engine name",
        engine.name, *user);
  }
  auto changed = run_with_all_fields(tx, kReplace, engine);
  if (!changed) return explain(changed, no_kernel(engine));
  return must_change(changed, ErrorCode::not_found, fmt::format("there is no engine '{}'", engine.name));
}

Result<std::optional<EngineRow>> find_engine(Reader& reader, std::string_view name) {
  return find_row<EngineRow>(reader, kFind, {name});
}

Result<std::vector<EngineRow>> list_engines(Reader& reader, std::string_view after, std::int64_t limit) {
  return list_rows<EngineRow>(reader, kList, {after, limit});
}

}  // namespace driftgate::store
