#pragma once

#include "daemon/pipeline/requests/checked_request.hpp"
#include "daemon/pipeline/service.hpp"

namespace driftgate::pipeline {

/// What a promotion would do: {"model", "engine", "contract", "starts_now", "locks": {"model", "held_by"},
/// "supersedes", "stages": [{"stage", "run", "clauses": [{"clause", "severity", "needs": [{"n", "unit",
/// "alpha", "why"}]}], "plan"}], "unfit": [{"stage", "clause", "slice", "have", "least", "at_half",
/// "message"}], "undecidable": [{"stage", "clause", "severity", "engine", "message"}], "rescoring":
/// {"reference", "why_none"} | null}. Sample sizes are at the α that the promotion's own runs would spend,
/// "run" says which run that is of this checkpoint, kernel and contract, unless the captures have a stored
/// verdict; "unfit" says which clauses the corpora of the request cannot decide, or seldom would;
/// "undecidable" which clauses no data can, for lack of an engine's ability; "rescoring" which engine would
/// score live answers again for the guard, or why none.
[[nodiscard]] schema::Result<View> plan_view(store::Store& store, const CheckedRequest& checked,
                                             const Settings& settings);

}  // namespace driftgate::pipeline
