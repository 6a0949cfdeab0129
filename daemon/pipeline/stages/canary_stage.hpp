#pragma once

#include "daemon/pipeline/context.hpp"
#include "daemon/route/control/telemetry.hpp"

namespace driftgate::pipeline {

/// What the shadow stages of this promotion kept of the incumbent, where this process remembers less.
[[nodiscard]] schema::Result<void> recall_incumbent(Context& context, const Live& live);

// The canary's tests (Live::canary) are advanced where they are, since they are large: when the change that a
// function here returns cannot be committed, the promotion must be read from the store again
// (Context::commit_or_retry).

/// The share of a step was read back and recorded: the step begins, or the rest of its share is desired.
[[nodiscard]] schema::Result<Change> canary_route_applied(Context& context, Live& live);
/// One window: its observations, then one decision. `with`: what consumes the window in the same transaction.
[[nodiscard]] schema::Result<Change> canary_window(Context& context, Live& live, const route::Window& window,
                                                   Change with);
/// Without windows for long enough, silence is decided on: freeze, then revert.
[[nodiscard]] bool is_silent(const Context& context, const Live& live);
/// What the canary saw of the candidate that it promotes.
[[nodiscard]] schema::Result<stages::Promoted> promoted_by_canary(Context& context, Live& live);
/// One decision of the tests as they are now. They must be open.
[[nodiscard]] schema::Result<Change> canary_decision(Context& context, Live& live, Change with = {});

}  // namespace driftgate::pipeline
