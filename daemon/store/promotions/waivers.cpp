#include "daemon/store/promotions/waivers.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{
    "insert waiver",
    "INSERT INTO waivers(id, promotion, stage, attempt, clause, who, evidence_digest, reason, given_us) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"};
constexpr Sql kList{"list waivers",
                    "SELECT id, promotion, stage, attempt, clause, who, evidence_digest, reason, given_us "
                    "FROM waivers WHERE promotion = ?1 ORDER BY id"};

}  // namespace

Result<void> insert_waiver(Tx& tx, const WaiverRow& w) {
  return explain(
      tx.run(kInsert, {w.id, w.stage.promotion, w.stage.stage, w.stage.attempt, w.clause, w.who,
                       w.evidence_digest, w.reason, w.given_us}),
      fmt::format("the waiver of '{}' for {} on {} cannot be stored", w.who, w.clause, w.stage.text()));
}

Result<std::vector<WaiverRow>> list_waivers(Reader& reader, std::string_view promotion) {
  return list_rows<WaiverRow>(reader, kList, {promotion});
}

}  // namespace driftgate::store
