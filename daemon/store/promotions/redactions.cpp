#include "daemon/store/promotions/redactions.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kDeleteBlob{"delete blob", "DELETE FROM blobs WHERE digest = ?1"};
constexpr Sql kDeleteStates{"delete stream states", "DELETE FROM stream_states WHERE promotion = ?1"};
constexpr Sql kDeletePoints{
    "delete live points",
    "DELETE FROM live_points WHERE run IN (SELECT id FROM live_runs WHERE promotion = ?1)"};
constexpr Sql kDeleteClauses{
    "delete live clauses",
    "DELETE FROM live_clauses WHERE run IN (SELECT id FROM live_runs WHERE promotion = ?1)"};
constexpr Sql kDeleteRuns{"delete live runs", "DELETE FROM live_runs WHERE promotion = ?1"};

}  // namespace

Result<bool> delete_blob(Tx& tx, std::string_view digest) {
  auto changed = TRY(tx.run(kDeleteBlob, {digest}));
  return changed > 0;
}

Result<std::int64_t> delete_stream_states(Tx& tx, std::string_view promotion) {
  return tx.run(kDeleteStates, {promotion});
}

Result<std::int64_t> delete_live_series(Tx& tx, std::string_view promotion) {
  const auto points = TRY(tx.run(kDeletePoints, {promotion}));
  TRY(tx.run(kDeleteClauses, {promotion}));
  TRY(tx.run(kDeleteRuns, {promotion}));
  return points;
}

}  // namespace driftgate::store
