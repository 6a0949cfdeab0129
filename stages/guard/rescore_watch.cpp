#include "stages/guard/rescore_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gpu/drift.hpp"
#include "schema/verdict_rule.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/report/wording.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::SliceRole;
using schema::Verdict;

constexpr std::int64_t kDayUs = 86'400'000'000;
/// An alarm has cleared below this part of what raised it.
constexpr double kClears = 0.01;

bool has_role(const schema::Clause& clause, SliceRole role) {
  return std::ranges::find(clause.slices, role) != clause.slices.end();
}

std::uint32_t folded(std::uint64_t key_hash) {
  return static_cast<std::uint32_t>(mix64(key_hash));
}

/// The figures of an answer's tokens; no rows where none has both log-probabilities.
schema::Result<gpu::MeasurementTable> measured(const RescoredAnswer& answer,
                                               const schema::Assumptions& assumptions) {
  std::vector<gpu::TargetTokenPair> tokens;
  for (std::size_t i = 0; i < std::min(answer.log_p.size(), answer.log_q.size()); ++i)
    tokens.push_back({0, answer.log_p[i], answer.log_q[i]});
  gpu::TargetTokenContext context;
  if (assumptions.policy) {
    context.ppo_clip = assumptions.policy->ppo_clip;
    context.is_clip = assumptions.policy->is_clip;
  }
  return gpu::measure_target_tokens(tokens, context);
}

std::vector<Bet> bets_of(const AnswerLimit& limit) {
  if (!limit.events) return share_bets();
  return limit.limit > 0 ? event_bets(limit.limit) : std::vector<Bet>{};
}

std::string method_of(const AnswerLimit& limit) {
  return fmt::format("e-detector over {} of answers{}, one of each key and day",
                     limit.events     ? "the share beyond the limit"
                     : limit.weighted ? "the tokens"
                                      : "the figures",
                     limit.unfiltered ? " sampled without filters" : "");
}

}  // namespace

RescoreWatch::RescoreWatch(const schema::Contract& contract, double share, std::int64_t armed_us)
    : contract_digest_(contract.digest),
      escalation_(contract.escalation),
      assumptions_(contract.assumptions),
      dimensions_(contract.slices.dimensions),
      critical_(contract.slices.critical),
      mean_time_us_(1'000 * contract.guard->mean_time_between_false_alarms_ms),
      share_(share) {
  plan(contract, armed_us);
}

/// The tests on all answers have half of the false alarms, those on slices the other half in equal parts;
/// what has no tests leaves its part to the other.
void RescoreWatch::plan(const schema::Contract& contract, std::int64_t armed_us) {
  std::vector<Tested> whole, critical;
  monitored_.clear();
  for (const schema::Clause& clause : contract.clauses) {
    const auto limit = answer_limit(clause, contract);
    if (!limit) continue;
    if (clause.slices.empty()) whole.push_back({clause, *limit});
    if (has_role(clause, SliceRole::critical)) critical.push_back({clause, *limit});
    if (has_role(clause, SliceRole::monitored)) monitored_.push_back({clause, *limit});
  }
  const std::size_t slices = critical.size() * critical_.size() + monitored_.size() * kMostMonitored;
  const double of_slices = slices == 0 ? 0 : whole.empty() ? share_ : share_ / 2;
  const double each = slices == 0 ? 0 : of_slices / static_cast<double>(slices);
  for (const Tested& tested : whole)
    add_watch(tested, {}, SliceRole::corpus, (share_ - of_slices) / static_cast<double>(whole.size()),
              armed_us);
  for (const Tested& tested : critical) {
    for (const auto& where : critical_) add_watch(tested, where, SliceRole::critical, each, armed_us);
  }
  monitored_part_ = each;
}

void RescoreWatch::add_watch(const Tested& tested, schema::SliceWhere where, SliceRole role, double part,
                             std::int64_t at_us) {
  watches_.push_back(Watch{.clause = tested.clause,
                           .limit = tested.limit,
                           .where = std::move(where),
                           .role = role,
                           .part = part,
                           .detector = EDetector(tested.limit.limit, bets_of(tested.limit)),
                           .newest_us = at_us});
}

/// Begins to watch the single values of this answer, while there is room.
void RescoreWatch::watch_values(const schema::SliceWhere& attributes, std::int64_t at_us) {
  if (monitored_.empty()) return;
  for (const auto& [dimension, value] : attributes) {
    const schema::SliceWhere where{{dimension, value}};
    const bool declared = std::ranges::find(dimensions_, dimension) != dimensions_.end();
    const bool known = std::ranges::find(values_, where) != values_.end() ||
                       std::ranges::find(critical_, where) != critical_.end();
    if (!declared || known || values_.size() >= kMostMonitored) continue;
    values_.push_back(where);
    for (const Tested& tested : monitored_)
      add_watch(tested, where, SliceRole::monitored, monitored_part_, at_us);
  }
}

bool RescoreWatch::takes(std::uint64_t key_hash, std::int64_t at_us) const {
  if (at_us / kDayUs > day_) return true;
  return keys_.size() < kMostOfDay && std::ranges::find(keys_, folded(key_hash)) == keys_.end();
}

bool RescoreWatch::remember(std::uint64_t key_hash, std::int64_t at_us) {
  if (!takes(key_hash, at_us)) return false;
  const std::int64_t day = at_us / kDayUs;
  if (day > day_) {
    day_ = day;
    keys_.clear();
  }
  keys_.push_back(folded(key_hash));
  return true;
}

schema::Result<bool> RescoreWatch::observe(const RescoredAnswer& answer) {
  const auto table = TRY(measured(answer, assumptions_));
  if (table.sequences.empty() || table.sequences.front().target.n == 0) return false;
  if (!remember(answer.key_hash, answer.at_us)) return false;
  ++answers_;
  filtered_ += answer.unfiltered ? 0 : 1;
  const schema::SliceWhere attributes = parse_slice(answer.slice);
  watch_values(attributes, answer.at_us);
  for (Watch& watch : watches_) {
    const bool counts = (answer.unfiltered || !watch.limit.unfiltered) && matches(attributes, watch.where);
    if (!counts) continue;
    const auto figure =
        answer_figure(watch.clause, watch.limit, assumptions_.max_tokens, table.sequences.front());
    if (!figure) continue;
    watch.detector.observe(figure->value, start_mass(watch.newest_us, answer.at_us, mean_time_us_),
                           answer.at_us);
    watch.newest_us = std::max(watch.newest_us, answer.at_us);
    watch.units += figure->units;
    watch.sum += figure->units * figure->figure;
  }
  return true;
}

GuardDecision RescoreWatch::decide() {
  GuardDecision decision;
  for (const Watch& watch : watches_) decision.verdicts.push_back(verdict(watch));
  schema::enforce_rules(decision.verdicts);
  for (std::size_t i = 0; i < watches_.size(); ++i) {
    Watch& watch = watches_[i];
    const ClauseVerdict& now = decision.verdicts[i];
    if (now.verdict == Verdict::violated && !watch.alarming) {
      watch.alarming = true;
      decision.alarms.push_back(now);
    } else if (watch.alarming && watch.detector.sum() < kClears / watch.part) {
      watch.alarming = false;
      decision.cleared.push_back(now);
    }
  }
  decision.escalation = escalate_in_guard(escalation_, decision.alarms);
  return decision;
}

ClauseVerdict RescoreWatch::verdict(const Watch& watch) const {
  const double needed = 1 / watch.part;
  ClauseVerdict verdict = begin_verdict(watch.clause, watch.where, watch.role, 0, 0);
  verdict.rule = schema::VerdictRule::e_value;
  verdict.limit_kind = watch.limit.is_max ? "max" : "min";
  verdict.threshold = watch.limit.stated;
  verdict.method = method_of(watch.limit);
  verdict.approximate = watch.limit.approximate;
  verdict.n = verdict.clusters = watch.detector.seen();
  if (watch.units > 0) verdict.estimate = watch.sum / watch.units;
  verdict.e_value = watch.detector.sum();
  const EDetector::Change change = watch.detector.change();
  verdict.details = {{"e_harm_needed", needed},
                     {"mean_time_days", static_cast<double>(mean_time_us_) / 86'400e6},
                     {"share_of_false_alarms", watch.part},
                     {"value_limit", watch.limit.limit},
                     {"value_mean", watch.detector.mean()},
                     {"change_since_us", static_cast<double>(change.since_us)},
                     {"change_seen", static_cast<double>(change.seen)},
                     {"change_value_mean", change.mean}};
  const std::string start =
      fmt::format("{} of {} rescored answers{} is {} ({} {})", subject_text(watch.clause),
                  count_text(verdict.n), on_slice(watch.where), figure(verdict.estimate.value_or(0)),
                  watch.limit.events ? "the share beyond" : verdict.limit_kind, figure(watch.limit.stated));
  const bool alarms = *verdict.e_value >= needed;
  verdict.verdict = alarms ? Verdict::violated : Verdict::pass;
  verdict.no_harm_only = !alarms;
  verdict.message = fmt::format("{}. {}: {} of {} needed.", start,
                                alarms ? "The limit is no longer kept" : "No change is shown",
                                figure(*verdict.e_value), figure(needed));
  return verdict;
}

void RescoreWatch::restart(std::int64_t now_us) {
  for (Watch& watch : watches_) {
    watch.detector.restart();
    watch.units = watch.sum = 0;
    watch.newest_us = now_us;
    watch.alarming = false;
  }
}

bool RescoreWatch::alarming() const {
  return std::ranges::any_of(watches_, &Watch::alarming);
}

}  // namespace driftgate::stages
