#include "daemon/store/promotions/spending.hpp"

#include <fmt/format.h>

#include "daemon/store/registry/kernels.hpp"
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

Result<SpendingKey> spending_key(Reader& reader, std::string_view checkpoint, std::string_view kernel,
                                 std::string_view contract, std::string_view stage) {
  const auto row = TRY(find_kernel(reader, kernel));
  if (!row)
    return schema::fail(schema::ErrorCode::corrupt, fmt::format("the kernel {} is not stored", kernel));
  return SpendingKey{std::string(checkpoint), row->digest, std::string(contract), std::string(stage)};
}

Result<std::uint32_t> next_run(Reader& reader, const SpendingKey& key) {
  const auto last =
      TRY(find_row<std::int64_t>(reader, kCount, {key.checkpoint, key.kernel, key.contract, key.stage}));
  return static_cast<std::uint32_t>(last.value_or(0) + 1);
}

Result<std::optional<SpendingRow>> find_spent(Reader& reader, const SpendingKey& key,
                                              std::string_view inputs_digest) {
  return find_row<SpendingRow>(reader, kFind,
                               {key.checkpoint, key.kernel, key.contract, key.stage, inputs_digest});
}

Result<Spent> spend(Tx& tx, const SpendingKey& key, std::string_view inputs_digest, const StageKey& run,
                    std::int64_t now_us) {
  auto old = TRY(find_spent(tx, key, inputs_digest));
  if (old) return Spent{.row = std::move(*old), .reused = true};
  const auto k = TRY(next_run(tx, key));
  SpendingRow row{
      .key = key, .k = k, .inputs_digest = std::string(inputs_digest), .run = run, .spent_us = now_us};
  TRY(tx.run(kInsert, {key.checkpoint, key.kernel, key.contract, key.stage, row.k, row.inputs_digest,
                       run.promotion, run.stage, run.attempt, now_us}));
  return Spent{.row = std::move(row), .reused = false};
}

}  // namespace driftgate::store
