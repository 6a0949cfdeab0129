#include "daemon/store/outbox.hpp"

#include <fmt/format.h>

#include <array>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/utf8.hpp"

namespace driftgate::store {

namespace {

constexpr std::size_t kMaxErrorBytes = 500;

constexpr Sql kPut{
    "put outbox message",
    "INSERT INTO outbox(endpoint, message, type, payload, state, attempts, due_us, created_us, "
    "ended_us, error) VALUES(?1, ?2, ?3, ?4, 'pending', 0, ?5, ?6, NULL, '') "
    "ON CONFLICT(endpoint, message) DO NOTHING"};
constexpr Sql kDue{"due outbox messages",
                   "SELECT id, endpoint, message, type, payload, attempts, due_us, created_us FROM outbox "
                   "WHERE state = 'pending' AND endpoint = ?1 AND due_us <= ?2 ORDER BY due_us, id LIMIT ?3"};
constexpr Sql kNext{"next outbox message",
                    "SELECT min(due_us) FROM outbox WHERE state = 'pending' AND endpoint = ?1"};
constexpr Sql kRetry{"retry outbox message",
                     "UPDATE outbox SET attempts = attempts + 1, due_us = ?2, error = ?3 "
                     "WHERE id = ?1 AND state = 'pending'"};
constexpr Sql kEnd{"end outbox message",
                   "UPDATE outbox SET attempts = attempts + 1, state = ?2, ended_us = ?3, error = ?4 "
                   "WHERE id = ?1 AND state = 'pending'"};
constexpr Sql kDrop{
    "drop outbox messages",
    "UPDATE outbox SET state = 'dropped', ended_us = ?3, error = ?4 WHERE state = 'pending' AND endpoint = "
    "?1 "
    "AND id NOT IN (SELECT id FROM outbox WHERE state = 'pending' AND endpoint = ?1 ORDER BY id DESC "
    "LIMIT ?2)"};
constexpr Sql kPrune{"prune outbox",
                     "DELETE FROM outbox WHERE state <> 'pending' AND endpoint = ?1 AND id NOT IN "
                     "(SELECT id FROM outbox WHERE state <> 'pending' AND endpoint = ?1 ORDER BY id DESC "
                     "LIMIT ?2)"};
constexpr Sql kCount{"count outbox", "SELECT state, count(*) FROM outbox WHERE endpoint = ?1 GROUP BY state"};
constexpr Sql kLastError{
    "last outbox error",
    "SELECT error FROM outbox WHERE endpoint = ?1 AND error <> '' ORDER BY id DESC LIMIT 1"};
constexpr Sql kEnsure{
    "ensure webhook",
    "INSERT INTO webhook_endpoints(name, url, disabled_us, reason) VALUES(?1, ?2, NULL, '') "
    "ON CONFLICT(name) DO UPDATE SET url = excluded.url, disabled_us = NULL, reason = '' "
    "WHERE url <> excluded.url"};
constexpr Sql kDisable{"disable webhook",
                       "UPDATE webhook_endpoints SET disabled_us = ?2, reason = ?3 WHERE name = ?1"};
constexpr Sql kEnable{"enable webhook",
                      "UPDATE webhook_endpoints SET disabled_us = NULL, reason = '' WHERE name = ?1"};
constexpr Sql kFind{"find webhook",
                    "SELECT name, url, disabled_us, reason FROM webhook_endpoints WHERE name = ?1"};

std::string no_message(std::int64_t id) {
  return fmt::format("outbox message {} is not pending", id);
}
std::string no_webhook(std::string_view name) {
  return fmt::format("there is no webhook endpoint '{}' in the settings", name);
}

}  // namespace

std::string_view to_string(OutboxEnd end) {
  constexpr std::array<std::string_view, 3> kNames = {"delivered", "failed", "dropped"};
  return kNames.at(static_cast<std::size_t>(end));
}

Result<void> put_outbox(Tx& tx, const OutboxRow& row) {
  return explain(
      tx.run(kPut, {row.endpoint, row.message, row.type, Blob{row.payload}, row.due_us, row.created_us}),
      fmt::format("a message for webhook '{}' cannot be stored", row.endpoint));
}

Result<std::vector<OutboxRow>> due_outbox(Reader& reader, std::string_view endpoint, std::int64_t now_us,
                                          std::int64_t limit) {
  return list_rows<OutboxRow>(reader, kDue, {endpoint, now_us, limit});
}

Result<std::optional<std::int64_t>> next_outbox(Reader& reader, std::string_view endpoint) {
  auto found = TRY(find_row<std::optional<std::int64_t>>(reader, kNext, {endpoint}));
  return found.value_or(std::nullopt);
}

Result<void> retry_outbox(Tx& tx, std::int64_t id, std::int64_t due_us, std::string_view error) {
  return must_change(tx.run(kRetry, {id, due_us, schema::utf8_text(error, kMaxErrorBytes)}), ErrorCode::not_found,
                     no_message(id));
}

Result<void> end_outbox(Tx& tx, std::int64_t id, OutboxEnd end, std::int64_t now_us, std::string_view error) {
  return must_change(tx.run(kEnd, {id, to_string(end), now_us, schema::utf8_text(error, kMaxErrorBytes)}),
                     ErrorCode::not_found, no_message(id));
}

Result<std::int64_t> drop_outbox(Tx& tx, std::string_view endpoint, std::int64_t keep, std::int64_t now_us,
                                 std::string_view why) {
  return tx.run(kDrop, {endpoint, keep, now_us, why});
}

Result<void> prune_outbox(Tx& tx, std::string_view endpoint, std::int64_t keep) {
  TRY(tx.run(kPrune, {endpoint, keep}));
  return {};
}

Result<OutboxCounts> count_outbox(Reader& reader, std::string_view endpoint) {
  OutboxCounts counts;
  TRY(reader.each(kCount, {endpoint}, [&](const Row& row) {
    const auto state = row.text(0);
    const auto count = row.integer(1);
    if (state == "pending") counts.pending = count;
    if (state == "delivered") counts.delivered = count;
    if (state == "failed") counts.failed = count;
    if (state == "dropped") counts.dropped = count;
    return true;
  }));
  auto error = TRY(find_row<std::string>(reader, kLastError, {endpoint}));
  counts.last_error = error.value_or("");
  return counts;
}

Result<void> ensure_webhook(Tx& tx, std::string_view name, std::string_view url) {
  return explain(tx.run(kEnsure, {name, url}), fmt::format("webhook '{}' cannot be stored", name));
}

Result<void> disable_webhook(Tx& tx, std::string_view name, std::int64_t now_us, std::string_view reason) {
  return must_change(tx.run(kDisable, {name, now_us, schema::utf8_text(reason, kMaxErrorBytes)}), ErrorCode::not_found,
                     no_webhook(name));
}

Result<void> enable_webhook(Tx& tx, std::string_view name) {
  return must_change(tx.run(kEnable, {name}), ErrorCode::not_found, no_webhook(name));
}

Result<std::optional<WebhookRow>> find_webhook(Reader& reader, std::string_view name) {
  return find_row<WebhookRow>(reader, kFind, {name});
}

}  // namespace driftgate::store
