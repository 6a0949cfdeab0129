#include "daemon/store/promotions/spending.hpp"

#include "daemon/store/outcome.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kFind{
    "find spending",
    "SELECT checkpoint, kernel, contract, stage, k, inputs_digest, run_promotion, run_stage, "
    "run_attempt, spent_us FROM spending "
    "WHERE checkpoint = ?1 AND kernel = ?2 AND contract = ?3 AND stage = ?4 AND inputs_digest = ?5"};
constexpr Sql kCount{"count spending",
                     "SELECT coalesce(max(k), 0) FROM spending "
                     "WHERE checkpoint = ?1 AND kernel = ?2 AND contract = ?3 AND stage = ?4"};
constexpr Sql kInsert{
    "insert spending",
    "INSERT INTO spending(checkpoint, kernel, contract, stage, k, inputs_digest, run_promotion, "
    "run_stage, run_attempt, spent_us) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"};

SpendingRow read_spending(const Row& row) {
  return {.key = {row.text(0), row.text(1), row.text(2), row.text(3)},
          .k = row.integer(4),
          .inputs_digest = row.text(5),
          .run = {row.text(6), row.text(7), row.integer(8)},
          .spent_us = row.integer(9)};
}

Result<std::int64_t> count_of(Result<std::optional<std::int64_t>> counted) {
  return must_exist(std::move(counted), "a count without a row");
}

}  // namespace

Result<Spent> spend(Tx& tx, const SpendingKey& key, std::string_view inputs_digest, const StageKey& run,
                    std::int64_t now_us) {
  auto old =
      tx.one(kFind, {key.checkpoint, key.kernel, key.contract, key.stage, inputs_digest}, read_spending);
  if (!old) return std::unexpected(std::move(old.error()));
  if (*old) return Spent{.row = std::move(**old), .reused = true};
  auto runs = TRY(runs_spent(tx, key));
  SpendingRow row{
      .key = key, .k = runs + 1, .inputs_digest = std::string(inputs_digest), .run = run, .spent_us = now_us};
  TRY(tx.run(kInsert, {key.checkpoint, key.kernel, key.contract, key.stage, row.k, row.inputs_digest,
                       run.promotion, run.stage, run.attempt, now_us}));
  return Spent{.row = std::move(row), .reused = false};
}

Result<std::int64_t> runs_spent(Reader& reader, const SpendingKey& key) {
  return count_of(reader.one(kCount, {key.checkpoint, key.kernel, key.contract, key.stage},
                             [](const Row& row) { return row.integer(0); }));
}

}  // namespace driftgate::store
