#include "daemon/store/promotions/approvals.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kPut{
    "put approval",
    "INSERT INTO approvals(id, promotion, stage, attempt, step, who, evidence_digest, decision, reason, "
    "given_us) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) "
    "ON CONFLICT(promotion, stage, attempt, step, who, evidence_digest) DO UPDATE SET id = ?1, "
    "decision = ?8, reason = ?9, given_us = ?10"};
constexpr Sql kList{
    "list approvals",
    "SELECT id, promotion, stage, attempt, step, who, evidence_digest, decision, reason, given_us "
    "FROM approvals WHERE promotion = ?1 ORDER BY id"};

}  // namespace

Result<void> put_approval(Tx& tx, const ApprovalRow& a) {
  return explain(tx.run(kPut, {a.id, a.stage.promotion, a.stage.stage, a.stage.attempt, a.step, a.who,
                               a.evidence_digest, to_string(a.decision), a.reason, a.given_us}),
                 fmt::format("the decision of '{}' on {} cannot be stored", a.who, a.stage.text()));
}

Result<std::vector<ApprovalRow>> list_approvals(Reader& reader, std::string_view promotion) {
  return list_rows<ApprovalRow>(reader, kList, {promotion});
}

}  // namespace driftgate::store
