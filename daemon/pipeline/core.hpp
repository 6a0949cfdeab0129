#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/job.hpp"
#include "daemon/jobs/worker.hpp"
#include "daemon/notify/outbox.hpp"
#include "daemon/pipeline/clock.hpp"
#include "daemon/pipeline/committer.hpp"
#include "daemon/pipeline/fallback.hpp"
#include "daemon/pipeline/incumbent_history.hpp"
#include "daemon/pipeline/progress.hpp"
#include "daemon/pipeline/request.hpp"
#include "daemon/pipeline/settings.hpp"
#include "daemon/pipeline/shadow_tally.hpp"
#include "daemon/pipeline/traffic_rate.hpp"
#include "daemon/route/control/driver.hpp"
#include "daemon/route/control/router_loss.hpp"
#include "daemon/schedule/blackout.hpp"
#include "daemon/schedule/misfire.hpp"
#include "daemon/store/id.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/promotions/approvals.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/promotions/waivers.hpp"
#include "daemon/store/registry/engines.hpp"
#include "daemon/store/registry/models.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "daemon/store/registry/versions.hpp"
#include "daemon/store/store.hpp"
#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/canary/canary.hpp"
#include "stages/report/report.hpp"

namespace driftgate::pipeline {

/// Everything the pipeline touches, passed in.
struct World {
  Settings settings;
  store::Store& store;
  Committer& committer;
  route::Driver& driver;
  jobs::JobRunner& runner;
  Clock& clock;
  std::function<store::IdRandom()> random;
  std::string instance;  ///< of this process: owner of the models' locks
  std::function<void(std::string_view level, const std::string& text)> log;
  std::function<void(const Event&)> publish;
  /// Whether an engine's checkpoint was looked at and found to be the registered one; takes its time.
  std::function<schema::Result<bool>(const std::string& engine)> verify;
  /// Runs `work` beside the loop, then `then` on it.
  std::function<void(std::function<void()> work, std::function<void()> then)> offload;
  /// Whether the engine at a base URL is healthy now; blocks for about a second at most.
  std::function<schema::Result<void>(const std::string& base_url)> health;
  notify::Outbox outbox;  ///< who is told of what is committed
};

struct Withdrawal;

/// A promotion that has not ended, as the loop holds it; everything in it can be rebuilt from the store.
struct Live {
  store::PromotionRow row;
  store::StageRunRow run;  ///< key.stage is empty while queued
  StageProgress progress;
  std::shared_ptr<const schema::Contract> contract;
  store::VersionRow candidate, baseline, fallback;  ///< fallback.id is empty when there is none
  std::optional<stages::CanaryState> canary;
  std::optional<ShadowTally> tally;  ///< of a shadow stage, from its first window on
  std::shared_ptr<const Withdrawal> wanted_end;  ///< asked for by a person, not committed yet
  bool evaluating = false;                       ///< an offloaded evaluation will come back
  std::int64_t retry_at_us = 0;                  ///< reload from the store and go on then; 0 = nothing failed
  std::uint32_t failures = 0;                    ///< in a row, of steps that could not be committed
};

/// A model's route as wanted and as read back.
struct ModelState {
  std::uint64_t epoch = 0;
  route::ModelRoute desired;
  bool agreed = false;  ///< read back as desired
  /// The data plane was given weight 0 ahead of a record that failed: it keeps it until one succeeds.
  bool kept_safe = false;
  std::int64_t retry_at_us = 0;
  std::uint32_t failures = 0;
  std::int64_t last_window_us = 0;
  TrafficRate rate;
  IncumbentHistory incumbent;
};

/// What ends a promotion before success.
struct Withdrawal {
  store::PromotionState target = store::PromotionState::aborted;
  store::StageRunState run_state = store::StageRunState::stopped;
  std::string actor{}, reason{};
  bool hold = false;      ///< set a hold on the model
  std::string report{};   ///< digest of the run's report; "" = none
  std::string outcome{};  ///< JSON object with figures; "" = none
  /// More rows and entries for the same transaction (verdicts, decisions); may be empty.
  Work also{};
};

/// What a stage came to, with the bytes that are kept.
struct StageConclusion {
  stages::StageReport report;
  std::string report_json;
  std::string table;          ///< bytes of the measurement table, or empty
  std::vector<std::string> floor_tables{};  ///< bytes of the noise floors' tables
  std::string inputs_digest;  ///< of the table, or of what stands for it
  std::string pairs;          ///< shadow: the pair records, or empty
  std::uint32_t run = 0;      ///< k: the α of this run is that of the k-th; 0 = none was spent
  /// What the verdict follows from beside the clauses: the canary's action, "failed" when nothing could be
  /// measured; "" = from the clauses alone.
  std::string action{};
  bool ended = true;  ///< false: the stage goes on after this look
};

/// What went with a router and is not recorded yet.
struct UnrecordedLoss {
  route::RouterLoss loss;
  std::function<void()> recorded;
};

/// The promotion state machine (pipeline.md, section 3). Not thread-safe: one loop calls it. Every event is
/// one transaction and then its side effects; a transaction that fails is retried by reloading from the
/// store, which is also how a restart goes on.
class Core {
 public:
  explicit Core(World world) : world_(std::move(world)) {}

  /// Takes the models' locks with epoch + 1, makes route and data plane agree, continues what was running.
  schema::Result<void> start();
  /// Timers, telemetry, heartbeat. Returns in how many µs it wants to be called again.
  std::int64_t tick();
  void on_job_done(const jobs::JobDone& done);
  /// `recorded` is called once the entry is committed.
  void router_replaced(route::RouterLoss loss, std::function<void()> recorded);

  schema::Result<std::string> create_model(const std::string& actor, const ModelRequest& request);
  /// Checks everything that a request needs; the row that would be inserted.
  schema::Result<store::PromotionRow> prepare(const std::string& actor, const PromotionRequest& request);
  /// `verified`: the checkpoint's files were found to be those that were registered. `also` gets the row in
  /// the same transaction; may be empty.
  using AlsoRequested = std::function<schema::Result<void>(store::Tx&, Entries&, const store::PromotionRow&)>;
  schema::Result<std::string> request(const std::string& actor, const PromotionRequest& request,
                                      bool verified, const AlsoRequested& also = {});
  schema::Result<void> approve(const std::string& actor, const std::string& id, const std::string& digest,
                               const std::string& reason);
  schema::Result<void> waive(const std::string& actor, const std::string& id, const std::string& clause,
                             const std::string& digest, const std::string& reason);
  schema::Result<void> abort(const std::string& actor, const std::string& id, const std::string& reason);
  schema::Result<void> rollback(const std::string& actor, const std::string& id, const std::string& reason);
  schema::Result<void> pause(const std::string& actor, const std::string& id, const std::string& reason);
  schema::Result<void> resume(const std::string& actor, const std::string& id, const std::string& reason);
  schema::Result<void> lift_hold(const std::string& actor, const std::string& model,
                                 const std::string& reason);
  schema::Result<void> lift_block(const std::string& actor, const std::string& id, const std::string& reason);

  [[nodiscard]] std::int64_t telemetry_age_ms() const;
  [[nodiscard]] bool routes_agree() const;
  [[nodiscard]] std::size_t windows_seen() const { return windows_seen_; }

 private:
  // core.cpp: transactions and small helpers
  schema::Result<void> commit(std::string_view what, const Work& work);
  schema::Result<void> commit_urgent(std::string_view what, const Work& work, const route::ModelRoute& safe,
                                     bool& ahead);
  void publish(const std::vector<Event>& events);
  [[nodiscard]] Work telling(const Work& work) const;
  [[nodiscard]] std::int64_t now() const { return world_.clock.now_us(); }
  void warn(const std::string& text) const { world_.log("warning", text); }
  [[nodiscard]] std::string new_id(std::string_view prefix);
  [[nodiscard]] std::uint64_t new_seed();
  Live* find(std::string_view id);
  Live* holder(std::string_view model);
  schema::Result<Live*> get_live(const std::string& id);
  schema::EntryDraft draft(const Live& live, schema::EvidenceKind kind, std::string_view actor,
                           schema::EntryValue::Object body) const;
  schema::Result<void> record_state(store::Tx& tx, Entries& entries, const Live& live,
                                    store::PromotionRow& row, const store::StageRunRow& run,
                                    std::string_view actor) const;
  /// Writes a row whose entry `seq` is no change of state.
  schema::Result<void> touch(store::Tx& tx, store::PromotionRow& row, std::int64_t seq) const;
  void stumble(Live& live, const schema::Error& error);

  // approve.cpp, waive.cpp
  schema::Result<void> refuse_own(const Live& live, const std::string& actor, schema::EvidenceKind kind,
                                  schema::EntryValue::Object body);
  schema::Result<std::vector<store::ApprovalRow>> approvals_of(const Live& live);
  schema::Result<bool> is_approved(const Live& live);
  schema::Result<void> record_approval(Live& live, const store::ApprovalRow& approval,
                                       schema::EntryValue::Object body, bool enough);
  schema::Result<Live*> waivable(const std::string& id, const std::string& digest);
  schema::Result<std::int64_t> add_waiver(store::Tx& tx, Entries& entries, const Live& live,
                                          const store::WaiverRow& waiver,
                                          const schema::EntryValue::Object& body) const;
  /// Of stages that were passed by waivers.
  schema::Result<std::vector<std::string>> waived_clauses(const Live& live);
  schema::Result<void> pass_waived(Live& live, const store::WaiverRow& waiver,
                                   schema::EntryValue::Object body, const std::string& who);

  // transitions.cpp
  void start_next(const std::string& model);
  void begin_promotion(Live& live, const store::ModelRow& model);
  schema::Result<void> load(Live& live, const store::PromotionRow& row);
  void go_on(Live& live);
  void enter_stage(Live& live);
  void begin_stage(store::StageRunRow& run, schema::Stage stage, std::int64_t attempt) const;
  void finish_stage(Live& live, const StageConclusion& conclusion);
  void after_stage(Live& live, store::PromotionRow& row, store::StageRunRow& next,
                   const StageConclusion& conclusion) const;
  schema::Result<void> put_verdicts(store::Tx& tx, Entries& entries, const Live& live,
                                    const StageConclusion& conclusion) const;
  void fail_stage(Live& live, const schema::Error& error, std::string_view what);
  void check_deadline(Live& live);
  void end(Live& live);

  // reconcile.cpp
  void note_clock();
  void tick_promotion(const std::string& id);

  // withdraw.cpp
  schema::Result<void> withdraw(Live& live, Withdrawal withdrawal);
  schema::Result<void> strengthen(Live& live, const Withdrawal& withdrawal);
  schema::Result<void> put_hold(store::Tx& tx, Entries& entries, const Live& live, const std::string& actor,
                                const std::string& reason) const;
  void complete_withdrawal(Live& live);
  void complete_success(Live& live);
  void take_back(const schema::EvidenceSubject& subject, const route::ModelRoute& safe);
  schema::Result<void> revert_success(const std::string& actor, store::PromotionRow row,
                                      const std::string& reason);

  // routes.cpp
  [[nodiscard]] route::ModelRoute next_route(const ModelState& model) const;
  [[nodiscard]] route::Arm arm(const store::VersionRow& version) const;
  schema::Result<void> put_route(store::Tx& tx, Entries& entries, const schema::EvidenceSubject& subject,
                                 const route::ModelRoute& route, std::string_view reason) const;
  void ensure_route(const std::string& model);
  schema::Result<bool> apply_and_read_back(const route::ModelRoute& route);
  schema::Result<void> record_applied(const std::string& model, const route::ModelRoute& route);
  void route_agreed(const std::string& model);
  void check_routes();
  void restore_routes();

  // stage_fixed.cpp: offline-numeric and statistical-slice
  void run_fixed(Live& live);
  schema::Result<std::optional<std::string>> capture_path(Live& live, const StageCaptures& captures,
                                                          const CaptureSource& source, const char* name);
  schema::Result<bool> floor_pair(Live& live, const StageCaptures& captures,
                                  const std::optional<FloorCaptures>& asked, const std::string& own,
                                  stages::FloorSide side, std::optional<jobs::DriftPayload::FloorPair>& found);
  schema::Result<std::vector<std::string>> adapter_argv(Live& live, const Adapter& adapter,
                                                        const StageCaptures& captures);
  void evaluate_fixed(Live& live, const jobs::JobResult& drift);
  bool reuse_verdicts(Live& live, const store::StageKey& earlier, std::uint32_t k);

  // dispatch.cpp: jobs
  schema::Result<std::optional<jobs::JobResult>> ensure_job(Live& live, const char* name, jobs::JobKind kind,
                                                            const jobs::JobLimits& limits,
                                                            const std::string& payload);
  [[nodiscard]] static std::string job_key(const store::StageKey& stage, std::string_view name);

  // stage_shadow.cpp
  void run_shadow(Live& live);
  void shadow_window(const Live& live, StageProgress& progress, ShadowTally& tally,
                     const route::Window& window) const;
  void check_shadow_end(Live& live);
  [[nodiscard]] bool has_needed_pairs(const Live& live) const;
  void stop_mirroring(Live& live);
  void rescore(Live& live);
  schema::Result<jobs::RescorePayload> rescore_payload(const Live& live, const std::string& spool) const;
  void evaluate_shadow(Live& live, const std::optional<jobs::JobResult>& rescored);

  // blocks.cpp
  [[nodiscard]] schema::Result<void> refuse_blocked(const std::string& checkpoint, const std::string& kernel,
                                                    const std::string& contract) const;
  schema::Result<void> put_block(store::Tx& tx, Entries& entries, const Live& live, const std::string& id,
                                 const stages::EscalationDecision& order) const;

  // ladder.cpp
  [[nodiscard]] route::ModelRoute with_ladder(route::ModelRoute route, const Live& live,
                                              const stages::CanaryDecision& decision) const;
  [[nodiscard]] std::optional<route::ModelRoute> rerouted(const Live& live,
                                                          const stages::CanaryDecision& decision) const;
  void adopt_route(const std::string& name, const route::ModelRoute& route);
  std::optional<Capacity> check_capacity(const Live& live, stages::CanaryDecision& decision);
  schema::Result<void> log_orders(store::Tx& tx, Entries& entries, const Live& live,
                                  const stages::CanaryDecision& decision,
                                  const std::optional<Capacity>& capacity) const;
  [[nodiscard]] stages::EscalationDecision offline_order(const Live& live,
                                                         const stages::StageReport& report) const;
  schema::Result<void> log_offline(store::Tx& tx, Entries& entries, const Live& live,
                                   const stages::EscalationDecision& order) const;
  [[nodiscard]] schema::Result<std::optional<store::EngineRow>> find_fallback(
      const store::PromotionRow& row, const PromotionRequest& request) const;

  // sampling.cpp
  void follow_sampling(Live& live);
  schema::Result<void> keep_sample(store::Tx& tx, const jobs::JobResult& result,
                                   const std::string& folder) const;

  // stage_canary.cpp, canary_actions.cpp
  void run_canary(Live& live);
  schema::Result<void> open_canary(Live& live);
  schema::Result<void> recall_incumbent(const Live& live);
  void go_to_step(Live& live, std::uint32_t step, std::uint32_t share_bp, const Work& also,
                  const std::string& reason, const stages::CanaryDecision* decision = nullptr);
  void step_applied(Live& live);
  void canary_step_applied(Live& live);
  bool canary_window(Live& live, const route::Window& window, const Work& consume);
  void canary_tick(Live& live);
  bool decide_canary(Live& live, const Work& also);
  [[nodiscard]] StageConclusion canary_conclusion(const Live& live, const stages::CanaryDecision& decision,
                                                  schema::Verdict verdict, const std::string& state) const;
  schema::Result<void> put_canary(store::Tx& tx, store::StageRunRow& run, const std::string& state) const;
  schema::Result<void> log_decision(store::Tx& tx, Entries& entries, const Live& live,
                                    const stages::CanaryDecision& decision) const;
  bool act(Live& live, stages::CanaryDecision decision, const Work& also);
  bool carry_out(Live& live, const stages::CanaryDecision& decision, const Work& also);
  bool note_hold(Live& live, const stages::CanaryDecision& decision, const Work& also);
  bool ask_approval(Live& live, const stages::CanaryDecision& decision, const Work& also);
  bool conclude_canary(Live& live, const stages::CanaryDecision& decision, const Work& also);
  bool end_canary(Live& live, const stages::CanaryDecision& decision, const Work& also);

  // schedules.cpp
  schema::Result<void> read_blackouts();
  [[nodiscard]] const schedule::Blackout* blackout_of(const std::string& model) const;
  void fire_schedules();
  void fire_schedule(const store::ScheduleRow& row);
  void request_by(const store::ScheduleRow& row, const schedule::DueFire& due, const PromotionRequest& wanted,
                  const schema::Result<bool>& verified);
  void skip_fire(const store::ScheduleRow& row, const schedule::DueFire& due, const std::string& why,
                 const std::string& reason);
  void move_on(const store::ScheduleRow& row, const schedule::DueFire& due);
  schema::Result<void> put_fire(store::Tx& tx, Entries& entries, const store::ScheduleRow& row,
                                const schedule::DueFire& due, const schema::EntryDraft& entry,
                                const std::string& outcome, const std::string& why,
                                const std::optional<std::string>& promotion) const;

  // router_losses.cpp
  void record_losses();
  schema::Result<void> record_loss(const route::RouterLoss& loss);

  // telemetry.cpp
  void read_telemetry();
  schema::Result<void> take_window(const route::Window& window);
  void heartbeat();

  World world_;
  std::map<std::string, ModelState, std::less<>> models_;
  std::map<std::string, std::unique_ptr<Live>, std::less<>> live_;
  route::WindowPosition last_window_;
  std::uint64_t windows_seen_ = 0;
  std::vector<UnrecordedLoss> losses_;
  std::int64_t next_losses_us_ = 0;
  std::int64_t next_telemetry_us_ = 0, next_heartbeat_us_ = 0;
  std::int64_t wall_offset_us_ = 0, clock_hour_us_ = 0;
  int clock_entries_ = 0;  ///< since clock_hour_us_
  std::vector<schedule::Blackout> blackouts_;
  std::int64_t next_schedules_us_ = 0;
  std::set<std::string, std::less<>> firing_;  ///< schedules whose checkpoint is being looked at
};

}  // namespace driftgate::pipeline
