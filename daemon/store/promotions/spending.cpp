#include "daemon/store/promotions/spending.hpp"

#include "daemon/store/sqlite/rows.hpp"

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

}  // namespace

Result<Spent> spend(Tx& tx, const SpendingKey& key, std::string_view inputs_digest, const StageKey& run,
                    std::int64_t now_us) {
  auto old = TRY(
      find_row<SpendingRow>(tx, kFind, {key.checkpoint, key.kernel, key.contract, key.stage, inputs_digest}));
  if (old) return Spent{.row = std::move(*old), .reused = true};
  auto runs = TRY(runs_spent(tx, key));
  SpendingRow row{
      .key = key, .k = runs + 1, .inputs_digest = std::string(inputs_digest), .run = run, .spent_us = now_us};
  TRY(tx.run(kInsert, {key.checkpoint, key.kernel, key.contract, key.stage, row.k, row.inputs_digest,
                       run.promotion, run.stage, run.attempt, now_us}));
  return Spent{.row = std::move(row), .reused = false};
}

Result<std::int64_t> runs_spent(Reader& reader, const SpendingKey& key) {
  const auto count =
      TRY(find_row<std::int64_t>(reader, kCount, {key.checkpoint, key.kernel, key.contract, key.stage}));
  return count.value_or(0);
}

}  // namespace driftgate::store
