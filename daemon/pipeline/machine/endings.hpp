#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/pipeline/change.hpp"

// How promotions end: requested by a person, ordered by a verdict, by a deadline, or with success. Pure.
namespace driftgate::pipeline::machine {

/// The end of a promotion before success. With a candidate in the route, 0% traffic is desired first (state
/// rolling_back) and complete_withdrawal ends it when that was read back; else the end is one transaction.
/// While it rolls back already, the stronger of the two ends counts. `with`: what is recorded in the same
/// transaction.
[[nodiscard]] Change withdraw(const Facts& facts, const Withdrawal& withdrawal, Change with = {});
/// 0% traffic was read back: the promotion ends as it was decided, and the hold is set.
[[nodiscard]] Change complete_withdrawal(const Facts& facts);
/// The route with the candidate as incumbent was read back. `waived`: clauses of stages that were passed by
/// waivers.
[[nodiscard]] Change complete_success(const Facts& facts, const std::vector<std::string>& waived);
/// Approvals, pauses and inconclusive states do not last for ever; nothing while the deadline is not reached.
[[nodiscard]] std::optional<Change> expire(const Facts& facts);
/// Rollback after success: the version before it serves again, and automation is held.
[[nodiscard]] Change revert_success(const Facts& facts, const std::string& actor, const std::string& reason);

}  // namespace driftgate::pipeline::machine
