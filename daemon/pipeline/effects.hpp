#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "daemon/jobs/job.hpp"
#include "daemon/pipeline/stages/conclusion.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "schema/error.hpp"

namespace driftgate::pipeline {

// What follows from a change, once it is committed. Effects are data: they name promotions and models by id,
// wait in one queue, and are carried out by the coordinator one after another, so that no function that
// commits a change is re-entered while it runs. Each may be carried out twice with the result of once.

/// The data plane is given the desired route; what waits for it goes on once it was read back and recorded.
struct ApplyRoute {
  std::string model;
};
/// The promotion continues from its rows: with its stage, or with the route that its end waits for.
struct EnterStage {
  std::string promotion;
};
struct StartJob {
  store::StageKey stage;
  jobs::JobSpec spec;
  /// What the attempt was about when the job cannot be started and the attempt fails for it; "" = try again
  /// later.
  std::string what;
};
/// The runner ends the job if it runs.
struct CancelJob {
  std::string key;
};
/// Folders of all jobs whose key starts with `prefix`.
struct ForgetJobs {
  std::string prefix;
};
struct DropSpool {
  std::string stage_key;
};
/// Decides on data that were read and checked, at the level of the k-th run. Nothing in it can fail: once a
/// test has looked at data, their α is spent.
using Tests = std::function<StageConclusion(std::uint32_t k)>;
/// The stage's data are read and checked beside the loop; UsePrepared brings the tests of them back.
struct Evaluate {
  store::StageKey stage;
  std::string what;           ///< for the error when the data cannot be decided on
  std::string inputs_digest;  ///< α is spent on these data
  std::function<schema::Result<Tests>()> prepare;
};
/// α is spent, then the tests run beside the loop; UseEvaluation brings the result back. Data that could not
/// be read or do not belong to the promotion spend nothing.
struct UsePrepared {
  store::StageKey stage;
  std::string what, inputs_digest;
  std::shared_ptr<const schema::Result<Tests>> tests;
};
struct UseEvaluation {
  store::StageKey stage;
  std::shared_ptr<const StageConclusion> conclusion;
};
/// An approval may let the canary advance at once.
struct DecideCanary {
  std::string promotion;
};
/// The promotion is terminal: its jobs and its spool go, and the model is free for the next one.
struct End {
  std::string promotion;
};
struct StartNext {
  std::string model;
};

/// The model's guard is read from the store, or forgotten where it has none.
struct LoadGuard {
  std::string model;
};
struct GuardLook;
/// A look at the engine of a guarded version has come back.
struct UseGuardLook {
  std::string model, guard;
  std::shared_ptr<const GuardLook> look;
};
struct RescoredLook;
/// A look at the answers that the data plane keeps for a guard has come back.
struct UseRescored {
  std::string model, guard;
  std::shared_ptr<const RescoredLook> look;
};
/// What the model's guard has ordered is to be carried out.
struct ActOnGuard {
  std::string model;
};
namespace machine {
struct GuardFacts;
}
/// What an order needs was looked at.
struct UseGuardFacts {
  std::string model, guard;
  std::shared_ptr<const machine::GuardFacts> facts;
};

using Effect = std::variant<ApplyRoute, EnterStage, StartJob, CancelJob, ForgetJobs, DropSpool, Evaluate,
                            UsePrepared, UseEvaluation, DecideCanary, End, StartNext, LoadGuard, UseGuardLook,
                            UseRescored, ActOnGuard, UseGuardFacts>;

}  // namespace driftgate::pipeline
