#include <doctest/doctest.h>

#include <iterator>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "daemon/pipeline/machine/endings.hpp"
#include "daemon/pipeline/machine/ladder.hpp"
#include "daemon/pipeline/machine/lifecycle.hpp"
#include "daemon/store/states.hpp"

// The machine as a table: state × event → state, entries, effects. Nothing here has a store.

using namespace driftgate;
using namespace driftgate::pipeline;
using schema::Stage;
using schema::Verdict;
using store::PromotionState;
using store::StageRunState;

namespace {

constexpr const char* kContract = R"(
apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: test}
kernels: {train: {ref: k-train}, inf: {ref: k-inf}, fallback: {ref: k-safe}}
slices: {dimensions: [language], min_sequences: 20, critical: [{language: de}]}
numerical:
  - {id: finite, metric: nonfinite, aggregate: sum, max: 0}
runtime:
  - {id: errors, metric: error_rate, max_ratio: 1.5, max: 0.2}
stages:
  shadow-runtime: {mirror_share: 0.5, min_duration: 5s, max_duration: 60s}
  canary:
    steps: [{share: 0.1}, {share: 0.5, approval: true}, {share: 1.0}]
    soak: 3s
    bake: 3s
    holdback: 0.01
    min_keys: 60
    max_duration: 30d
    telemetry: {freeze_after: 10s, revert_after: 20s}
confidence: {alpha: 0.05, alpha_harm: 0.01, alpha_advance: 0.05}
escalation:
  rules: [{match: numerical.finite, action: block}]
  defaults: {hard: rollback, soft: freeze}
)";

constexpr std::int64_t kNow = 1'000'000'000;

std::shared_ptr<const schema::Contract> contract() {
  static const auto parsed = [] {
    auto report = schema::parse_contract(kContract, "contract");
    REQUIRE_MESSAGE(report.contract, schema::format_faults(report.faults, "contract"));
    return std::make_shared<const schema::Contract>(std::move(*report.contract));
  }();
  return parsed;
}

/// What the data plane is told of the candidate.
enum class Routed { no, candidate, incumbent };

/// A promotion and its model in memory, as an event finds them.
struct World {
  Live live;
  ModelState model;
  Settings settings;

  World(PromotionState state, const char* stage = "", Routed routed = Routed::no) {
    live.contract = contract();
    live.candidate = {.id = "ve-new", .kernel = "k-inf"};
    live.baseline = {.id = "ve-old", .kernel = "k-train"};
    live.fallback = {.id = "ve-safe", .kernel = "k-safe"};
    live.row.id = "pr-1";
    live.row.model = "m";
    live.row.candidate = "ve-new";
    live.row.baseline = "ve-old";
    live.row.state = state;
    live.row.stage = stage;
    live.row.attempt = *stage != 0 ? 1 : 0;
    live.run.key = {"pr-1", stage, 1};
    model.epoch = model.desired.epoch = 7;
    model.desired.model = "m";
    model.desired.revision = 3;
    model.desired.incumbent.version = routed == Routed::incumbent ? "ve-new" : "ve-old";
    if (routed == Routed::candidate) {
      model.desired.candidate = route::Arm{"ve-new", "k-inf", ""};
      model.desired.candidate_bp = 1'000;
    }
  }
  [[nodiscard]] Facts facts() const { return {live, &model, kNow, settings}; }
  World& with_canary() {
    auto made = stages::CanaryState::create(*live.contract, {});
    REQUIRE(made.has_value());
    live.canary.emplace(std::move(*made));
    live.progress.phase = "ramping";
    live.progress.share_bp = 1'000;
    return *this;
  }
};

/// The entries of a change in the order in which they are written.
std::string entries_of(const Change& change) {
  std::string text;
  const auto add = [&](std::string_view kind) { text += (text.empty() ? "" : " ") + std::string(kind); };
  for (const auto& entry : change.orders) add(schema::to_string(entry.kind));
  if (change.verdicts) add("verdicts");
  for (const auto& entry : change.entries) add(schema::to_string(entry.kind));
  if (change.block) add("block_set");
  if (change.route) add("route_desired");
  if (change.hold) add("hold_set");
  if (change.row && change.state_entry) add("state_changed");
  return text;
}

std::string effects_of(const Change& change) {
  static const char* const names[] = {
      "ApplyRoute", "EnterStage",  "StartJob",    "CancelJob",    "ForgetJobs",   "DropSpool",
      "Evaluate",   "UsePrepared", "UseResult",   "DecideCanary", "End",          "StartNext",
      "LoadGuard",  "UseLook",     "UseRescored", "ActOnGuard",   "UseGuardFacts"};
  static_assert(std::size(names) == std::variant_size_v<Effect>);
  std::string text;
  for (const auto& effect : change.effects)
    text += (text.empty() ? "" : " ") + std::string(names[effect.index()]);
  return text;
}

/// "state stage/attempt", as the promotion is after the change.
std::string state_after(const World& world, const Change& change) {
  const auto& row = change.row ? *change.row : world.live.row;
  auto text = std::string(store::to_string(row.state));
  if (row.resume_state) text += ">" + std::string(store::to_string(*row.resume_state));
  if (!row.stage.empty()) text += " " + row.stage + "/" + std::to_string(row.attempt);
  return text;
}

struct Expected {
  std::string state, entries, effects;
};

void check(const World& world, const Change& change, const Expected& expected) {
  CHECK(state_after(world, change) == expected.state);
  CHECK(entries_of(change) == expected.entries);
  CHECK(effects_of(change) == expected.effects);
}

StageConclusion concluded(Stage stage, Verdict verdict, const char* clause = "numerical.tv") {
  StageConclusion conclusion;
  conclusion.report.stage = stage;
  conclusion.report.verdict = verdict;
  conclusion.report_json = "{}";
  schema::ClauseVerdict judged;
  judged.clause = clause;
  judged.verdict = verdict;
  judged.message = "what was found";
  conclusion.report.clauses.push_back(judged);
  return conclusion;
}

stages::CanaryDecision decision(stages::CanaryAction action, std::uint32_t step = 0,
                                std::uint32_t share_bp = 1'000) {
  stages::CanaryDecision decided;
  decided.action = action;
  decided.next_step = step;
  decided.next_share_bp = share_bp;
  decided.reasons = {"the tests found this"};
  return decided;
}

Change progress_only(const World& world) {
  Change change;
  change.progress = world.live.progress;
  return change;
}

constexpr PromotionState kOpenStates[] = {PromotionState::queued,       PromotionState::running,
                                          PromotionState::paused,       PromotionState::awaiting_approval,
                                          PromotionState::inconclusive, PromotionState::rolling_back,
                                          PromotionState::finalizing};

}  // namespace

TEST_CASE("a promotion starts with its first stage, and its baseline is locked") {
  const World world(PromotionState::queued);
  const auto change = machine::begin_promotion(world.facts(), "ve-serving");
  check(world, change, {"running offline-numeric/1", "state_changed", "EnterStage"});
  CHECK(change.row->baseline == "ve-serving");
  REQUIRE(change.next);
  CHECK(change.next->key.text() == "pr-1/offline-numeric/1");
}

TEST_CASE("the verdict of a stage leads to the next stage, to people, or to the end") {
  struct Row {
    const char* stage;
    Verdict verdict;
    Routed routed;
    Expected expected;
    StageRunState run;
  };
  const Row rows[] = {
      {"offline-numeric",
       Verdict::pass,
       Routed::no,
       {"running statistical-slice/1", "verdicts state_changed", "ForgetJobs EnterStage"},
       StageRunState::pass},
      {"statistical-slice",
       Verdict::pass,
       Routed::no,
       {"running shadow-runtime/1", "verdicts state_changed", "ForgetJobs EnterStage"},
       StageRunState::pass},
      {"shadow-runtime",
       Verdict::pass,
       Routed::candidate,
       {"running canary/1", "verdicts state_changed", "ForgetJobs DropSpool EnterStage"},
       StageRunState::pass},
      {"offline-numeric",
       Verdict::inconclusive,
       Routed::no,
       {"inconclusive offline-numeric/1", "verdicts state_changed", "ForgetJobs"},
       StageRunState::inconclusive},
      {"statistical-slice",
       Verdict::error,
       Routed::no,
       {"errored statistical-slice/1", "verdicts state_changed", "End"},
       StageRunState::error},
      {"shadow-runtime",
       Verdict::inconclusive,
       Routed::candidate,
       {"inconclusive shadow-runtime/1", "verdicts state_changed", "ForgetJobs DropSpool"},
       StageRunState::inconclusive},
  };
  for (const auto& row : rows) {
    CAPTURE(row.stage);
    const World world(PromotionState::running, row.stage, row.routed);
    const auto stage = *schema::stage_from_name(row.stage);
    const auto change = machine::conclude_stage(world.facts(), concluded(stage, row.verdict), "bl-1");
    check(world, change, row.expected);
    REQUIRE(change.run);
    CHECK(change.run->state == row.run);
    CHECK(change.run->ended_us == kNow);
    CHECK(change.row->deadline_us.has_value() == (row.verdict == Verdict::inconclusive));
  }
}

TEST_CASE("a violated clause rejects: at once, or when the mirrored candidate has left the route") {
  const World offline(PromotionState::running, "statistical-slice");
  auto change = machine::conclude_stage(offline.facts(),
                                        concluded(Stage::statistical_slice, Verdict::violated), "bl-1");
  CHECK(state_after(offline, change) == "rejected statistical-slice/1");
  CHECK(entries_of(change) == "verdicts escalation_decided state_changed");
  CHECK(effects_of(change) == "End");
  const World shadow(PromotionState::running, "shadow-runtime", Routed::candidate);
  change =
      machine::conclude_stage(shadow.facts(), concluded(Stage::shadow_runtime, Verdict::violated), "bl-1");
  CHECK(state_after(shadow, change) == "rolling_back>rejected shadow-runtime/1");
  CHECK(entries_of(change) == "verdicts escalation_decided route_desired state_changed");
  CHECK(effects_of(change) == "ApplyRoute");
  CHECK_FALSE(change.route->route.candidate.has_value());
  CHECK(change.route->route.revision == 4);
  CHECK(change.wanted_end == nullptr);  // what is stored leads to it again
}

TEST_CASE("an order to block is recorded with the end that it orders") {
  const World world(PromotionState::running, "offline-numeric");
  const auto change = machine::conclude_stage(
      world.facts(), concluded(Stage::offline_numeric, Verdict::violated, "numerical.finite"), "bl-1");
  check(world, change,
        {"rejected offline-numeric/1", "verdicts escalation_decided block_set state_changed", "End"});
  CHECK(change.block->id == "bl-1");
}

TEST_CASE("an attempt that could not measure is repeated when that may help") {
  struct Row {
    schema::ErrorCode code;
    std::int64_t attempt;
    Expected expected;
  };
  const Row rows[] = {
      {schema::ErrorCode::unavailable, 1, {"running offline-numeric/2", "verdicts state_changed", ""}},
      {schema::ErrorCode::io, 2, {"running offline-numeric/3", "verdicts state_changed", ""}},
      {schema::ErrorCode::io, 3, {"errored offline-numeric/3", "verdicts state_changed", "End"}},
      {schema::ErrorCode::not_found, 1, {"errored offline-numeric/1", "verdicts state_changed", "End"}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.attempt);
    World world(PromotionState::running, "offline-numeric");
    world.live.run.key.attempt = world.live.row.attempt = row.attempt;
    const auto change =
        machine::fail_attempt(world.facts(), {row.code, "no", "", nullptr}, "the train capture");
    check(world, change, row.expected);
    CHECK(change.run->state == StageRunState::error);
  }
  Settings settings;
  CHECK(machine::retry_delay_us(settings, 1) == settings.retry_ms * 1'000);
  CHECK(machine::retry_delay_us(settings, 3) == 4 * settings.retry_ms * 1'000);
}

TEST_CASE("abort and rollback work in every state") {
  for (const auto state : kOpenStates) {
    for (const bool routed : {false, true}) {
      CAPTURE(store::to_string(state));
      CAPTURE(routed);
      const bool finalizing = state == PromotionState::finalizing;
      if (state == PromotionState::rolling_back || (routed && state == PromotionState::queued)) continue;
      const World world(state, state == PromotionState::queued ? "" : "canary",
                        !routed      ? Routed::no
                        : finalizing ? Routed::incumbent
                                     : Routed::candidate);
      const auto stage = std::string(state == PromotionState::queued ? "" : " canary/1");
      const auto aborted =
          machine::withdraw(world.facts(), {.target = PromotionState::aborted, .reason = "no"});
      const auto rejected = machine::withdraw(
          world.facts(), {.target = PromotionState::rejected, .reason = "harm", .hold = true});
      CHECK(aborted.ends);
      CHECK(aborted.wanted_end != nullptr);
      if (routed) {
        check(world, aborted, {"rolling_back>aborted" + stage, "route_desired state_changed", "ApplyRoute"});
        // The hold is set with the end, when weight 0 was read back.
        check(world, rejected,
              {"rolling_back>rejected" + stage, "route_desired state_changed", "ApplyRoute"});
        CHECK(aborted.route->route.incumbent.version == "ve-old");
        CHECK(aborted.route->route.candidate_bp == 0);
      } else {
        check(world, aborted, {"aborted" + stage, "state_changed", "End"});
        check(world, rejected, {"rejected" + stage, "hold_set state_changed", "End"});
      }
    }
  }
}

TEST_CASE("while a promotion rolls back the stronger of two ends counts") {
  World world(PromotionState::rolling_back, "canary", Routed::candidate);
  world.live.row.resume_state = PromotionState::aborted;
  world.live.row.outcome = R"({"hold":false})";
  const auto stronger =
      machine::withdraw(world.facts(), {.target = PromotionState::rejected, .reason = "harm", .hold = true});
  check(world, stronger, {"rolling_back>rejected canary/1", "state_changed", ""});
  CHECK_FALSE(stronger.ends);
  const auto weaker =
      machine::withdraw(world.facts(), {.target = PromotionState::inconclusive, .reason = "late"});
  CHECK(weaker.is_empty());
}

TEST_CASE("a withdrawal completes as it was decided once weight 0 was read back") {
  struct Row {
    PromotionState target;
    const char* outcome;
    Expected expected;
  };
  const Row rows[] = {
      {PromotionState::aborted,
       R"({"by":"olga","hold":false})",
       {"aborted canary/1", "state_changed", "End"}},
      {PromotionState::rejected,
       R"({"by":"driftgate","hold":true})",
       {"rejected canary/1", "hold_set state_changed", "End"}},
      {PromotionState::inconclusive,
       R"({"by":"driftgate","hold":false})",
       {"inconclusive canary/1", "state_changed", ""}},
  };
  for (const auto& row : rows) {
    World world(PromotionState::rolling_back, "canary");
    world.live.row.resume_state = row.target;
    world.live.row.outcome = row.outcome;
    world.live.row.traffic = store::Traffic::live;
    const auto change = machine::complete_withdrawal(world.facts());
    check(world, change, row.expected);
    CHECK(change.row->traffic == store::Traffic::reverted);
    CHECK(change.actor == (row.target == PromotionState::aborted ? "olga" : ""));
    CHECK(change.row->ended_us.has_value() == (row.target != PromotionState::inconclusive));
    CHECK(change.row->deadline_us.has_value() == (row.target == PromotionState::inconclusive));
  }
}

TEST_CASE("success makes the candidate the incumbent, and says what was waived") {
  const World world(PromotionState::finalizing, "canary", Routed::incumbent);
  const auto change = machine::complete_success(world.facts(), {});
  check(world, change, {"succeeded canary/1", "state_changed", "End"});
  CHECK(change.incumbent == "ve-new");
  CHECK(change.row->traffic == store::Traffic::live);
  const auto waived = machine::complete_success(world.facts(), {"numerical.tv"});
  CHECK(waived.row->reason.find("numerical.tv") != std::string::npos);
}

TEST_CASE("a success is reverted with the route, the incumbent and the hold in one change") {
  const World world(PromotionState::succeeded, "canary");
  const auto change = machine::revert_success(world.facts(), "olga", "users complain");
  check(world, change, {"succeeded canary/1", "route_desired hold_set state_changed", "ApplyRoute"});
  CHECK(change.incumbent == "ve-old");
  CHECK(change.row->traffic == store::Traffic::reverted);
}

TEST_CASE("deadlines end what nobody acted on") {
  World world(PromotionState::awaiting_approval, "canary", Routed::candidate);
  CHECK_FALSE(machine::expire(world.facts()).has_value());
  world.live.row.deadline_us = kNow + 1;
  CHECK_FALSE(machine::expire(world.facts()).has_value());
  world.live.row.deadline_us = kNow;
  const auto change = machine::expire(world.facts());
  REQUIRE(change.has_value());
  check(world, *change, {"rolling_back>expired canary/1", "route_desired state_changed", "ApplyRoute"});
}

TEST_CASE("what pause and resume do in each state") {
  const std::map<PromotionState, std::pair<const char*, const char*>> expected = {
      {PromotionState::queued, {"refused", "refused"}},
      {PromotionState::running, {"paused>running canary/1", "nothing"}},
      {PromotionState::paused, {"nothing", "running canary/1 EnterStage"}},
      {PromotionState::awaiting_approval, {"paused>running canary/1", "refused"}},
      {PromotionState::inconclusive, {"refused", "running canary/2 EnterStage"}},
      {PromotionState::rolling_back, {"refused", "refused"}},
      {PromotionState::finalizing, {"refused", "refused"}},
  };
  const auto told = [](const World& world, const schema::Result<Change>& change) -> std::string {
    if (!change) return change.error().code == schema::ErrorCode::conflict ? "refused" : "?";
    if (change->is_empty()) return "nothing";
    const auto effects = effects_of(*change);
    return state_after(world, *change) + (effects.empty() ? "" : " " + effects);
  };
  for (const auto& [state, wanted] : expected) {
    CAPTURE(store::to_string(state));
    const World world(state, "canary", Routed::candidate);
    CHECK(told(world, machine::pause(world.facts(), "olga", "")) == wanted.first);
    CHECK(told(world, machine::resume(world.facts(), "olga", "")) == wanted.second);
  }
}

TEST_CASE("a shadow stage mirrors when its route is read back, and is rescored when that has ended") {
  World world(PromotionState::running, "shadow-runtime", Routed::candidate);
  world.live.progress.phase = "applying";
  auto change = machine::shadow_route_applied(world.facts());
  check(world, change, {"running shadow-runtime/1", "", ""});
  CHECK(change.progress->phase == "mirroring");
  CHECK(change.run->planned_end_us == kNow + 5'000'000);
  world.live.progress.phase = "stopping";
  change = machine::shadow_route_applied(world.facts());
  check(world, change, {"running shadow-runtime/1", "", "EnterStage"});
  CHECK(change.progress->phase == "rescoring");
  world.live.row.state = PromotionState::paused;
  CHECK(effects_of(machine::shadow_route_applied(world.facts())).empty());
}

TEST_CASE("a canary's step is desired first and begins when it was read back") {
  World world(PromotionState::running, "canary");
  auto change = machine::go_to_step(world.facts(), {0, 1'000, "the canary begins"});
  check(world, change, {"running canary/1", "route_desired state_changed", "ApplyRoute"});
  CHECK(change.progress->phase == "applying");
  CHECK(change.route->route.candidate_bp == 1'000);
  CHECK(change.route->route.stage_key == "pr-1/canary/1");
  CHECK(change.row->traffic == store::Traffic::live);
  change = machine::begin_step(world.facts(), "memory");
  check(world, change, {"running canary/1", "", ""});
  CHECK(change.progress->phase == "ramping");
  CHECK(change.run->step_started_us == kNow);
  world.live.run.step = 3;
  CHECK(machine::begin_step(world.facts(), "memory").progress->phase == "baking");
}

TEST_CASE("what each decision of the canary's tests leads to") {
  using stages::CanaryAction;
  struct Row {
    CanaryAction action;
    std::uint32_t step;
    Expected expected;
  };
  const Row rows[] = {
      {CanaryAction::hold, 0, {"running canary/1", "", ""}},
      {CanaryAction::freeze, 0, {"running canary/1", "escalation_decided", ""}},
      {CanaryAction::advance,
       1,
       {"running canary/1", "verdicts escalation_decided route_desired state_changed", "ApplyRoute"}},
      {CanaryAction::step_back,
       0,
       {"running canary/1", "verdicts escalation_decided route_desired state_changed", "ApplyRoute"}},
      {CanaryAction::wait_approval,
       0,
       {"awaiting_approval canary/1", "verdicts escalation_decided state_changed", ""}},
      {CanaryAction::finish,
       3,
       {"finalizing canary/1", "verdicts escalation_decided route_desired state_changed", "ApplyRoute"}},
      {CanaryAction::rollback,
       0,
       {"rolling_back>rejected canary/1", "verdicts escalation_decided route_desired state_changed",
        "ApplyRoute"}},
      {CanaryAction::block,
       0,
       {"rolling_back>rejected canary/1", "verdicts escalation_decided block_set route_desired state_changed",
        "ApplyRoute"}},
      {CanaryAction::revert,
       0,
       {"rolling_back>errored canary/1", "verdicts escalation_decided route_desired state_changed",
        "ApplyRoute"}},
      {CanaryAction::inconclusive,
       0,
       {"rolling_back>inconclusive canary/1", "verdicts escalation_decided route_desired state_changed",
        "ApplyRoute"}},
  };
  for (const auto& row : rows) {
    CAPTURE(stages::to_string(row.action));
    World world(PromotionState::running, "canary", Routed::candidate);
    world.with_canary();
    const auto change =
        machine::decide(world.facts(), decision(row.action, row.step), "bl-1", progress_only(world));
    check(world, change, row.expected);
    CHECK(change.canary.has_value());  // the tests' memory goes with every decision
    CHECK(change.progress->last_action == stages::to_string(row.action));
    CHECK(change.progress->frozen == (row.action == CanaryAction::freeze));
  }
}

TEST_CASE("slices and all traffic go to the fallback kernel without a new step") {
  using stages::CanaryAction;
  World world(PromotionState::awaiting_approval, "canary", Routed::candidate);
  world.with_canary();
  auto wanted = decision(CanaryAction::route_slice);
  wanted.fallback_slices = {{{"language", "de"}}};
  const auto change = machine::decide(world.facts(), wanted, "bl-1", progress_only(world));
  // What was asked to be approved no longer stands.
  check(world, change,
        {"running canary/1", "verdicts escalation_decided route_desired state_changed", "ApplyRoute"});
  CHECK(change.route->route.slices.size() == 1);
  REQUIRE(change.route->route.fallback);
  CHECK(change.route->route.fallback->version == "ve-safe");
  CHECK(change.progress->phase == "ramping");
}

TEST_CASE("an approval is asked for once for the same evidence, and anew when a verdict changed") {
  using stages::CanaryAction;
  World world(PromotionState::running, "canary", Routed::candidate);
  world.with_canary();
  auto asked = decision(CanaryAction::wait_approval);
  const auto first = machine::decide(world.facts(), asked, "bl-1", progress_only(world));
  CHECK(first.row->state == PromotionState::awaiting_approval);
  copy_back(Change(first), world.live, &world.model);
  const auto same = machine::decide(world.facts(), asked, "bl-1", progress_only(world));
  CHECK(entries_of(same).empty());
  schema::ClauseVerdict changed;
  changed.clause = "runtime.errors";
  changed.verdict = Verdict::violated;
  asked.verdicts.push_back(changed);
  const auto again = machine::decide(world.facts(), asked, "bl-1", progress_only(world));
  CHECK(entries_of(again) == "verdicts escalation_decided state_changed");
  CHECK(again.progress->approval_digest != first.progress->approval_digest);
}

TEST_CASE(
    "a change that was committed is copied into memory, and a new run begins with nothing of the last one") {
  World world(PromotionState::running, "shadow-runtime", Routed::candidate);
  world.live.progress.pairs = 7;
  world.model.agreed = world.model.kept_safe = true;
  auto change =
      machine::conclude_stage(world.facts(), concluded(Stage::shadow_runtime, Verdict::pass), "bl-1");
  copy_back(std::move(change), world.live, &world.model);
  CHECK(world.live.row.stage == "canary");
  CHECK(world.live.run.key.text() == "pr-1/canary/1");
  CHECK(world.live.progress.pairs == 0);
  CHECK(world.model.agreed);  // no route was changed
  change = machine::go_to_step(world.facts(), {0, 1'000, "the canary begins"});
  copy_back(std::move(change), world.live, &world.model);
  CHECK_FALSE(world.model.agreed);
  CHECK_FALSE(world.model.kept_safe);
  CHECK(world.model.desired.candidate_bp == 1'000);
}
