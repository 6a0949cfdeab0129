#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// The verdict of a clause on a slice. A stage that evaluates continuously replaces its rows.
struct VerdictRow {
  StageKey stage{};
  std::string clause{};   ///< "family.id"
  std::string slice{};    ///< canonical "domain=code;language=de", "" for all sequences
  std::string verdict{};  ///< pass, violated, inconclusive or error
  std::string detail{};   ///< JSON: n, estimate, interval or e-value, threshold, α, method …
  std::int64_t evidence_seq = 0;
  std::int64_t decided_us = 0;
  bool operator==(const VerdictRow&) const = default;
};

Result<void> put_verdict(Tx& tx, const VerdictRow& verdict);
/// By clause, then slice.
Result<std::vector<VerdictRow>> list_verdicts(Reader& reader, const StageKey& stage);
/// The first `limit` of these that did not pass.
Result<std::vector<VerdictRow>> list_not_passed(Reader& reader, const StageKey& stage, std::int64_t limit);
/// Of all stages and attempts of a promotion, by evidence seq.
Result<std::vector<VerdictRow>> list_promotion_verdicts(Reader& reader, std::string_view promotion);

}  // namespace driftgate::store
