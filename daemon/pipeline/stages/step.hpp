#pragma once

#include <string>
#include <variant>

#include "daemon/pipeline/context.hpp"

namespace driftgate::pipeline {

/// Nothing to do now: a job's end, a route that is read back, telemetry or time brings the stage on.
struct Wait {};
/// Something could not be read or written that may be later: the promotion is read again after a while.
struct Retry {
  schema::Error error;
};
/// This attempt cannot measure.
struct AttemptFailed {
  schema::Error error;
  std::string what;
};
/// The next step of a stage. A stage is a function of what is stored: it returns what follows, changes
/// nothing in memory, calls no other stage, and is evaluated again whenever something may have changed.
using StageStep = std::variant<Wait, Retry, AttemptFailed, Change, StageConclusion>;

/// offline-numeric and statistical-slice: captures, then drift, then the verdict.
[[nodiscard]] StageStep fixed_step(Context& context, const Live& live);
/// shadow-runtime, from its phase: applying → mirroring → stopping → rescoring.
[[nodiscard]] StageStep shadow_step(Context& context, const Live& live);
/// canary: the share of its step is desired, or applied again.
[[nodiscard]] StageStep canary_step(Context& context, Live& live);

}  // namespace driftgate::pipeline
