#pragma once

#include "daemon/pipeline/service.hpp"
#include "daemon/store/promotions/promotions.hpp"

namespace driftgate::pipeline {

/// What a promotion would do: {"model", "engine", "contract", "starts_now", "held_by", "stages": [{"stage",
/// "clauses":
/// [{"clause", "needs": [{"n", "unit", "alpha", "why"}]}], "plan"}]}. Sample sizes are at the α that would be
/// spent by the first run.
[[nodiscard]] schema::Result<View> plan_view(store::Reader& reader, const store::PromotionRow& promotion);

}  // namespace driftgate::pipeline
