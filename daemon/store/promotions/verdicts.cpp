#include "daemon/store/promotions/verdicts.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kPut{
    "put verdict",
    "INSERT INTO verdicts(promotion, stage, attempt, clause, slice, verdict, detail, evidence_seq, "
    "decided_us) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) "
    "ON CONFLICT(promotion, stage, attempt, clause, slice) DO UPDATE SET verdict = excluded.verdict, "
    "detail = excluded.detail, evidence_seq = excluded.evidence_seq, decided_us = excluded.decided_us"};
constexpr Sql kList{
    "list verdicts",
    "SELECT promotion, stage, attempt, clause, slice, verdict, detail, evidence_seq, decided_us "
    "FROM verdicts WHERE promotion = ?1 AND stage = ?2 AND attempt = ?3 ORDER BY clause, slice"};
constexpr Sql kListNotPassed{
    "list verdicts that did not pass",
    "SELECT promotion, stage, attempt, clause, slice, verdict, detail, evidence_seq, decided_us "
    "FROM verdicts INDEXED BY verdicts_not_passed WHERE promotion = ?1 AND stage = ?2 AND attempt = ?3 "
    "AND verdict <> 'pass' ORDER BY clause, slice LIMIT ?4"};
constexpr Sql kListPromotion{
    "list verdicts of a promotion",
    "SELECT promotion, stage, attempt, clause, slice, verdict, detail, evidence_seq, "
    "decided_us FROM verdicts WHERE promotion = ?1 ORDER BY evidence_seq"};

}  // namespace

Result<void> put_verdict(Tx& tx, const VerdictRow& v) {
  return explain(tx.run(kPut, {v.stage.promotion, v.stage.stage, v.stage.attempt, v.clause, v.slice,
                               v.verdict, v.detail, v.evidence_seq, v.decided_us}),
                 fmt::format("the verdict of {} in {} cannot be stored", v.clause, v.stage.text()));
}

Result<std::vector<VerdictRow>> list_verdicts(Reader& reader, const StageKey& stage) {
  return list_rows<VerdictRow>(reader, kList, {stage.promotion, stage.stage, stage.attempt});
}

Result<std::vector<VerdictRow>> list_not_passed(Reader& reader, const StageKey& stage, std::int64_t limit) {
  return list_rows<VerdictRow>(reader, kListNotPassed, {stage.promotion, stage.stage, stage.attempt, limit});
}

Result<std::vector<VerdictRow>> list_promotion_verdicts(Reader& reader, std::string_view promotion) {
  return list_rows<VerdictRow>(reader, kListPromotion, {promotion});
}

}  // namespace driftgate::store
