#include "schema/contract/contract_guard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "schema/contract/contract_means.hpp"
#include "schema/contract/contract_parse.hpp"
#include "schema/contract/least_n.hpp"

namespace driftgate::schema {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;
/// A request of one token with a prompt of one token: less than any probe takes.
constexpr std::uint64_t kLeastProbeTokens = 2;

std::string time_text(std::int64_t ms) {
  if (ms % kDayMs == 0) return fmt::format("{} d", ms / kDayMs);
  if (ms % 3'600'000 == 0) return fmt::format("{} h", ms / 3'600'000);
  if (ms % 60'000 == 0) return fmt::format("{} min", ms / 60'000);
  return fmt::format("{:.6g} s", static_cast<double>(ms) / 1'000);
}

bool decided_in_canary(const Clause& clause) {
  return (clause.stages & stage_bit(Stage::canary)) != 0;
}

/// Whether the ramp waits for a proof of the clause, which may never come if the truth is near its limit.
bool holds_up_ramp(const Clause& clause) {
  return decided_in_canary(clause) && clause.severity == Severity::hard &&
         !std::holds_alternative<SignalSubject>(clause.subject) &&
         requirement_of(clause) == Requirement::proof;
}

std::vector<std::string> watched_clauses(const Contract& contract) {
  std::vector<std::string> addresses;
  for (const Clause& clause : contract.clauses) {
    if (is_watched(clause)) addresses.push_back(clause.address());
  }
  return addresses;
}

std::string rescoring_text(const Contract& contract, const RescoringPlan& rescoring) {
  const auto clauses = rescored_clauses(contract);
  if (clauses.empty()) return "scores no answer again: no clause limits what an answer's own tokens show";
  return fmt::format(
      "has live answers of {:g}% of sticky keys scored again by an engine of the kernel {}, for at most {} "
      "tokens a day, and tests {} on them; without such an engine, or where one of both engines cannot score "
      "tokens that it is given, it says so and tests nothing",
      static_cast<double>(rescoring.share_bp) / 100, contract.train_kernel, rescoring.budget_tokens,
      fmt::join(clauses, ", "));
}

std::uint64_t probes_of_day(const ProbePlan& probes) {
  return static_cast<std::uint64_t>(kDayMs / probes.every_ms);
}

}  // namespace

bool is_watched(const Clause& clause) {
  const auto* subject = std::get_if<MetricSubject>(&clause.subject);
  if (subject == nullptr || !decided_in_canary(clause)) return false;
  if (subject->metric == Metric::error_rate) return true;
  return info(subject->metric).group == MetricGroup::traffic && subject->aggregate &&
         quantile_of(*subject->aggregate);
}

bool is_rescored(const Clause& clause, const Contract& contract) {
  const auto* subject = std::get_if<MetricSubject>(&clause.subject);
  const bool of_kernels = clause.family == Family::numerical || clause.family == Family::statistical;
  if (subject == nullptr || !of_kernels || !subject->aggregate) return false;
  const bool estimated = subject->metric == Metric::tv || subject->metric == Metric::kl_inf_train;
  if (info(subject->metric).group != MetricGroup::realised && !estimated) return false;
  if (!clause.limits.max && !clause.limits.min) return false;
  if (quantile_of(*subject->aggregate)) return !estimated && clause.over == QuantileOver::sequences;
  if (!clause.clip && !has_finite_range(subject->metric)) return false;
  const bool mean = subject->aggregate == Aggregate::mean || subject->aggregate == Aggregate::sequence_mean;
  return mean && (!weighs_tokens(*subject) || contract.assumptions.max_tokens > 0);
}

std::vector<std::string> rescored_clauses(const Contract& contract) {
  std::vector<std::string> addresses;
  for (const Clause& clause : contract.clauses) {
    if (is_rescored(clause, contract)) addresses.push_back(clause.address());
  }
  return addresses;
}

std::vector<std::string> guard_plan(const Contract& contract) {
  if (!contract.guard) return {};
  const GuardPlan& guard = *contract.guard;
  std::vector<std::string> plan;
  const auto watched = watched_clauses(contract);
  const std::string rarely = fmt::format("with at most one false alarm in {} on average",
                                         time_text(guard.mean_time_between_false_alarms_ms));
  if (!watched.empty()) {
    plan.push_back(
        fmt::format("tests {} on live traffic, one request of each sticky key and hour: a max as it stands, a "
                    "max_ratio or "
                    "max_delta against the upper limit of what was promoted; {}",
                    fmt::join(watched, ", "), rarely));
  }
  if (guard.probes.prompts > 0) {
    plan.push_back(fmt::format(
        "asks the engine one of {} golden prompts every {} for at most {} tokens a day and compares the "
        "log-probabilities with those of the promotion; a difference: {}",
        guard.probes.prompts, time_text(guard.probes.every_ms), guard.probes.budget_tokens,
        to_string(guard.probes.action)));
  }
  plan.push_back(fmt::format("asks the engine every {} what it is; another answer than at the promotion: {}",
                             time_text(guard.identity.every_ms), to_string(guard.identity.action)));
  if (guard.rescoring) plan.push_back(rescoring_text(contract, *guard.rescoring));
  return plan;
}

namespace detail {
namespace {

std::optional<Action> read_guard_action(const Cursor& at) {
  static constexpr std::array<std::string_view, 2> kNames{"notify", "rollback"};
  const auto index = read_choice(at, kNames);
  if (!index) return std::nullopt;
  return *index == 0 ? Action::notify : Action::rollback;
}

}  // namespace

void parse_guard(Fields& root, Contract& contract) {
  const auto at = root.find("guard");
  if (!at) return;
  contract.guard.emplace();
  GuardPlan& guard = *contract.guard;
  guard.position = at->node.position;
  Fields fields(*at, "guard");
  const auto interval = [](const Cursor& c) { return read_duration_ms(c, 1'000, kDayMs); };
  fields.take("mean_time_between_false_alarms", guard.mean_time_between_false_alarms_ms,
              [](const Cursor& c) { return read_duration_ms(c, 3'600'000); });
  if (const auto probes = fields.find("probes")) {
    Fields inner(*probes, "guard.probes");
    inner.take("every", guard.probes.every_ms, interval);
    inner.take("prompts", guard.probes.prompts, [](const Cursor& c) { return read_count(c, 0, kMaxProbes); });
    inner.take("budget_tokens", guard.probes.budget_tokens,
               [](const Cursor& c) { return read_count(c, 1, 1'000'000'000'000); });
    inner.take("action", guard.probes.action, read_guard_action);
    inner.finish();
  }
  if (const auto identity = fields.find("identity")) {
    Fields inner(*identity, "guard.identity");
    inner.take("every", guard.identity.every_ms, interval);
    inner.take("action", guard.identity.action, read_guard_action);
    inner.finish();
  }
  if (const auto rescoring = fields.find("rescoring")) {
    RescoringPlan& plan = guard.rescoring.emplace();
    Fields inner(*rescoring, "guard.rescoring");
    inner.take("share", plan.share_bp, [](const Cursor& c) { return read_share_bp(c, 1); });
    inner.take("budget_tokens", plan.budget_tokens,
               [](const Cursor& c) { return read_count(c, 1, 1'000'000'000'000); });
    inner.finish();
  }
  fields.finish();
  if (!contract.canary) {
    at->refuse(
        "a guard begins when a promotion has succeeded, and without stages.canary none can; add "
        "stages.canary with its steps");
  }
}

void check_duration(const Contract& contract, std::vector<Fault>& faults) {
  if (!contract.canary || contract.canary->max_duration_ms) return;
  std::vector<std::string> waiting;
  for (const Clause& clause : contract.clauses) {
    if (holds_up_ramp(clause)) waiting.push_back(clause.address());
  }
  if (waiting.empty()) return;
  faults.push_back(
      {contract.canary->position, "/stages/canary",
       fmt::format(
           "a step of the canary waits for the proof of {}, which may never come where the truth is near "
           "the limit; state max_duration (such as 24h), after which a step ends as inconclusive",
           fmt::join(waiting, ", "))});
}

void warn_guard(const Contract& contract, std::vector<Fault>& warnings) {
  if (contract.canary && !contract.guard) {
    warnings.push_back(
        {contract.canary->position, "",
         "nothing is watched once a promotion has succeeded; add guard: {} to go on testing the "
         "canary's clauses and the engine itself"});
  }
  if (!contract.guard) return;
  const GuardPlan& guard = *contract.guard;
  if (watched_clauses(contract).empty()) {
    warnings.push_back(
        {guard.position, "",
         "the guard has no clause to test: it goes on with those of the canary on error_rate and "
         "on quantiles of latencies"});
  }
  if (guard.rescoring && rescored_clauses(contract).empty()) {
    warnings.push_back(
        {guard.position, "",
         "guard.rescoring is stated, and no clause limits what an answer's own tokens show; it takes a "
         "numerical or statistical clause on a metric of target tokens, on tv or on kl_inf_train, with "
         "aggregate: sequence_mean (and clip where the metric has no upper end)"});
  }
  const bool unpaid = guard.probes.prompts > 0 &&
                      guard.probes.budget_tokens < kLeastProbeTokens * probes_of_day(guard.probes);
  if (unpaid) {
    warnings.push_back(
        {guard.position, "",
         fmt::format(
             "guard.probes.budget_tokens ({}) cannot pay for {} probes a day, one every {}: probes stop "
             "for the rest of a day once it is spent",
             guard.probes.budget_tokens, probes_of_day(guard.probes), time_text(guard.probes.every_ms))});
  }
}

}  // namespace detail
}  // namespace driftgate::schema
