#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "daemon/pipeline/change.hpp"

// How a canary's decision is reported: its entry, its report, and what people approve. Pure.
namespace driftgate::pipeline::machine {

[[nodiscard]] std::string first_reason(const stages::CanaryDecision& decision);
/// The verdict while the stage continues: it never passes before its end.
[[nodiscard]] schema::Verdict verdict_so_far(const stages::CanaryDecision& decision);
[[nodiscard]] nlohmann::json figures(const Live& live, const StageProgress& progress,
                                     const stages::CanaryDecision& decision);
/// What the policy ordered, with its figures.
[[nodiscard]] schema::EntryDraft decision_entry(const Facts& facts, const StageProgress& progress,
                                                const stages::CanaryDecision& decision);
/// `memory`: of the tests, which the verdict follows from.
[[nodiscard]] StageConclusion canary_conclusion(const Facts& facts, const StageProgress& progress,
                                                const stages::CanaryDecision& decision,
                                                schema::Verdict verdict, const std::string& memory);

/// What an approver reads: the step, this stay at it and every clause's verdict, without figures that move
/// from window to window, so that an approval is void exactly when a verdict changes or the step was left.
[[nodiscard]] std::string approval_basis(const Live& live, const stages::CanaryDecision& decision);
/// The evidence is no longer what was approved for the step that is about to be left.
[[nodiscard]] bool approval_is_stale(const Live& live, const stages::CanaryDecision& decision);

}  // namespace driftgate::pipeline::machine
