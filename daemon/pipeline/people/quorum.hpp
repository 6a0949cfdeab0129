#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/promotions/approvals.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/promotions/waivers.hpp"
#include "schema/contract/contract.hpp"

namespace driftgate::pipeline {

/// Different people that it takes to pass an inconclusive clause.
inline constexpr std::size_t kWaiversNeeded = 2;

/// What a step asks of people.
struct Quorum {
  std::size_t needed = 1;
  std::int64_t valid_ms = 0;  ///< an older approval counts no more
};
[[nodiscard]] Quorum quorum_of(const schema::Contract& contract, std::int64_t step);

/// Of a promotion's approvals those that count now for the step that `run` is at: of the evidence `digest`,
/// not older than the quorum allows, oldest first; one for each person, names that look alike being one.
[[nodiscard]] std::vector<store::ApprovalRow> counted_approvals(std::span<const store::ApprovalRow> all,
                                                                const store::StageRunRow& run,
                                                                std::string_view digest, const Quorum& quorum,
                                                                std::int64_t now_us);

/// A clause that keeps an inconclusive stage from passing, with the waivers that it has.
struct OpenClause {
  std::string clause;
  std::vector<store::WaiverRow> given;
  [[nodiscard]] bool is_waived() const;  ///< by kWaiversNeeded people, names that look alike being one
};
/// By clause; only waivers of this attempt and of its report as it is now.
[[nodiscard]] schema::Result<std::vector<OpenClause>> open_clauses(store::Reader& reader,
                                                                   const store::StageRunRow& run);

/// How `actor`, or a name that looks like it, stands behind a promotion and so may neither approve nor waive
/// it: "requested promotion pr-…", set the schedule that did, or set the recipe that parts of it came from.
/// Nothing for somebody else.
[[nodiscard]] schema::Result<std::optional<std::string>> asked_for(store::Reader& reader,
                                                                   const store::PromotionRow& promotion,
                                                                   std::string_view actor);

}  // namespace driftgate::pipeline
