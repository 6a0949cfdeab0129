#pragma once

#include <string>
#include <vector>

#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/sqlite/sql.hpp"
#include "daemon/store/states.hpp"

namespace driftgate::store {

/// A person's decision about one step.
struct ApprovalRow {
  std::string id{};  ///< "ap-…"
  StageKey stage{};
  std::int64_t step = 0;
  std::string who{};
  std::string evidence_digest{};  ///< what was read; the approval is void when it changes
  Decision decision = Decision::approve;
  std::string reason{};
  std::int64_t given_us = 0;
  bool operator==(const ApprovalRow&) const = default;
};

/// A later decision of the same person on the same evidence takes the place of the earlier one.
Result<void> put_approval(Tx& tx, const ApprovalRow& approval);
/// Of one promotion, oldest first.
Result<std::vector<ApprovalRow>> list_approvals(Reader& reader, std::string_view promotion);

}  // namespace driftgate::store
