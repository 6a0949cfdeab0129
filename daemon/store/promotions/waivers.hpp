#pragma once

#include <string>
#include <vector>

#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// A person's decision that a stage passes although one of its clauses is inconclusive.
struct WaiverRow {
  std::string id{};  ///< "wv-…"
  StageKey stage{};
  std::string clause{};  ///< "family.id": on every slice where it is inconclusive
  std::string who{};
  std::string evidence_digest{};  ///< of the stage's report that was read; void when it changes
  std::string reason{};
  std::int64_t given_us = 0;
  bool operator==(const WaiverRow&) const = default;
};

/// `already_exists` when this person has waived this clause with this evidence before.
Result<void> insert_waiver(Tx& tx, const WaiverRow& waiver);
/// Of one promotion, oldest first.
Result<std::vector<WaiverRow>> list_waivers(Reader& reader, std::string_view promotion);

}  // namespace driftgate::store
