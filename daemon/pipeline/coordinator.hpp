#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "daemon/pipeline/breaker_watch.hpp"
#include "daemon/pipeline/context.hpp"
#include "daemon/pipeline/requests/scheduled.hpp"
#include "daemon/pipeline/requests/scheduled_reports.hpp"
#include "daemon/pipeline/router_losses.hpp"
#include "daemon/pipeline/stages/jobs.hpp"
#include "daemon/pipeline/stages/step.hpp"
#include "daemon/pipeline/telemetry.hpp"

namespace driftgate::pipeline {

/// Turns events into changes and carries out what follows from them. An event (a command, a tick, a job's
/// end) decides and commits; its effects are queued and carried out by `settle`, one after another, each of
/// which may commit a change and queue further ones. Nothing below `settle` calls it. Not thread-safe: the
/// loop's thread calls it.
class Coordinator {
 public:
  explicit Coordinator(World world) : context_(std::move(world)) {}

  [[nodiscard]] Context& context() { return context_; }
  [[nodiscard]] const Context& context() const { return context_; }
  /// Takes the models' locks with epoch + 1, makes route and data plane agree, continues what was running.
  schema::Result<void> start();
  /// Timers, telemetry, heartbeat. Returns in how many µs it wants to be called again.
  std::int64_t tick();
  void job_done(const jobs::JobDone& done, const KeptFiles& kept);
  /// Records what went with a router, then gives the one that took its place the routes.
  void router_replaced(route::RouterLoss loss, std::function<void()> recorded);
  schema::Result<void> rollback(const std::string& actor, const std::string& id, const std::string& reason);
  /// Carries out queued effects until none is left: at the end of every event.
  void settle();

  /// What /metrics shows of the loop's own, as it is now.
  [[nodiscard]] ServiceFigures figures() const;

 private:
  // start.cpp
  schema::Result<void> read_blackouts();
  schema::Result<void> take_locks();
  schema::Result<void> load_open_promotions();
  // timers
  void note_clock();
  void send_heartbeat();
  void restore_routes();
  void follow_breakers();
  void read_telemetry();
  void tell_figures();
  void tick_promotion(const std::string& id);
  void retry(Live& live);
  void retry_rollbacks();
  schema::Result<void> roll_back_served(Live& served, const UnrecordedRollback& wanted);
  // effects
  void carry_out(const Effect& effect);
  void apply_route(const std::string& model);
  void enter_stage(const std::string& promotion);
  void start_job(const StartJob& job);
  void evaluate(const Evaluate& wanted);
  void use_prepared(const UsePrepared& done);
  void use_evaluation(const UseEvaluation& done);
  void decide_canary(const std::string& promotion);
  void forget_ended(const std::string& promotion);
  // figures
  [[nodiscard]] std::int64_t telemetry_age_ms() const;
  [[nodiscard]] bool routes_agree() const;
  [[nodiscard]] std::uint64_t guards_alarming() const;
  /// Armed guards whose contract asks for rescoring, and which have answers kept for it or not.
  [[nodiscard]] std::uint64_t guards_rescoring(bool kept) const;
  // what effects lead to
  void route_agreed(Live& live);
  void route_of_stage_applied(Live& live);
  void take_step(Live& live, StageStep step);
  void conclude(Live& live, StageConclusion conclusion);
  void fail_attempt(Live& live, const schema::Error& error, const std::string& what);
  void commit_decided(Live& live, schema::Result<Change> change);

  Context context_;
  RouterLosses losses_{context_};
  BreakerWatch breakers_{context_};
  ScheduledRequests schedules_{context_};
  ScheduledReports reports_{context_};
  Telemetry telemetry_{context_, [this] { settle(); }};
  std::int64_t next_telemetry_us_ = 0, next_heartbeat_us_ = 0, next_breakers_us_ = 0, next_figures_us_ = 0;
  std::int64_t wall_offset_us_ = 0, clock_hour_us_ = 0;
  int clock_entries_ = 0;  ///< since clock_hour_us_
};

}  // namespace driftgate::pipeline
