#pragma once

#include "schema/error.hpp"
#include "schema/verdict.hpp"

namespace driftgate::schema {

/// The verdict that follows from the recorded numbers by the recorded rule, without looking at
/// `verdict.verdict`: what an auditor recomputes. A violation among many tests that Holm's procedure does not
/// reject (details.holm_rejected = 0) is inconclusive (a pass with no_harm_only), or an error when the resampling was too coarse for the
/// family (details.replicates_wanted). `corrupt` names a number that the rule needs and the record lacks.
[[nodiscard]] Result<Verdict> rederive(const ClauseVerdict& recorded);

/// Turns each verdict that does not follow from its own record into an error that says so: a fault of this
/// program must never let a checkpoint through, nor write evidence that an auditor would refuse.
void hold_to_rules(std::vector<ClauseVerdict>& verdicts);

}  // namespace driftgate::schema
