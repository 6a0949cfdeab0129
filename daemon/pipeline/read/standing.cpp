#include "daemon/pipeline/read/standing.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>

#include "daemon/base/json_members.hpp"
#include "daemon/pipeline/read/job_views.hpp"
#include "daemon/pipeline/read/json_views.hpp"
#include "schema/utf8.hpp"
#include "stages/report/wording.hpp"
#include "stages/shadow_needs.hpp"

namespace driftgate::pipeline {
namespace {

using schema::Stage;
using stages::count_text;
using store::PromotionState;

constexpr std::size_t kMaxSentenceBytes = 600;
constexpr std::size_t kNamed = 3;  ///< clauses or people that a sentence names

bool is_stage(const RunFacts& run, Stage stage) {
  return run.row.key.stage == schema::to_string(stage);
}

/// The first of several names, and how many more there are.
std::string list_text(const std::vector<std::string>& names) {
  if (names.size() <= kNamed) return fmt::format("{}", fmt::join(names, ", "));
  const auto first = names | std::views::take(kNamed);
  return fmt::format("{} and {} more", fmt::join(first.begin(), first.end(), ", "), names.size() - kNamed);
}

std::string people_text(std::size_t count) {
  return count == 1 ? std::string("one person") : fmt::format("{} people", count);
}

/// Who stands behind a promotion and so decides nothing about it: asked for it, or set the recipe of its
/// parts.
std::string askers_text(const PromotionFacts& facts) {
  const auto request = nlohmann::json::parse(facts.row.request, nullptr, false);
  const auto setter = base::text_at(base::object_at(request, "recipe"), "set_by");
  if (setter.empty() || setter == facts.row.requester) return facts.row.requester;
  return fmt::format("{} and {}", facts.row.requester, setter);
}

/// What a stage of fixed data or a rescoring waits for.
std::string job_text(const RunningJob& job) {
  const auto place = job.place ? place_text(*job.place) : std::string();
  const bool queued = job.place && job.place->state == "queued";
  std::string text =
      fmt::format("the job {} {}{}", job.name, queued ? "is " : "", place.empty() ? "runs" : place);
  if (!job.progress || queued) return text;
  const auto& progress = *job.progress;
  if (progress.total > 0)
    text +=
        fmt::format(", {} of {} {}", count_text(progress.done), count_text(progress.total), progress.unit);
  else if (progress.done > 0)
    text += fmt::format(", {} {} so far", count_text(progress.done), progress.unit);
  return progress.text.empty() ? text : fmt::format("{} ({})", text, progress.text);
}

/// The step of a canary: "step 2 of 3 (10%)", "the bake (100%)".
struct Place {
  std::size_t step = 0, steps = 0;  ///< from 0; steps is 0 when the contract cannot be read
  std::uint32_t share_bp = 0;
  [[nodiscard]] bool is_bake() const { return steps > 0 && step >= steps; }
  [[nodiscard]] std::string text() const {
    if (is_bake()) return fmt::format("the bake ({})", share_text(share_bp));
    if (steps == 0) return fmt::format("step {} ({})", step + 1, share_text(share_bp));
    return fmt::format("step {} of {} ({})", step + 1, steps, share_text(share_bp));
  }
};

const schema::CanaryPlan* plan_of(const PromotionFacts& facts) {
  return facts.contract && facts.contract->canary ? &*facts.contract->canary : nullptr;
}

Place place_of(const PromotionFacts& facts, const RunFacts& run) {
  const auto* const plan = plan_of(facts);
  return {static_cast<std::size_t>(std::max<std::int64_t>(run.row.step, 0)), plan ? plan->steps.size() : 0,
          run.progress.share_bp};
}

/// Where leaving the step leads: "go to 50%", "begin the bake", "finish".
std::string leaving_text(const PromotionFacts& facts, const Place& place) {
  const auto* const plan = plan_of(facts);
  if (plan == nullptr) return "go on";
  if (place.is_bake()) return "finish";
  if (place.step + 1 >= plan->steps.size()) return "begin the bake";
  return fmt::format("go to {}", share_text(plan->steps[place.step + 1].share_bp));
}

/// The newest decision's first reason, and how many more there are.
std::string waits_text(const StageProgress& progress) {
  if (progress.waits_for.empty()) return "no requests of users were seen in this step yet";
  const auto lines = static_cast<std::size_t>(std::ranges::count(progress.waits_for, '\n'));
  const auto first = progress.waits_for.substr(0, progress.waits_for.find('\n'));
  if (lines == 0) return first;
  return fmt::format("{} There {} {} more such {}", first, lines == 1 ? "is" : "are", lines,
                     lines == 1 ? "reason" : "reasons");
}

std::string canary_why(const PromotionFacts& facts, const RunFacts& run) {
  const auto place = place_of(facts, run);
  if (run.progress.phase.empty()) return "The canary begins";
  if (run.progress.phase == "applying")
    return fmt::format("The canary goes to {}, which the data plane has not confirmed yet", place.text());
  if (run.progress.frozen)
    return fmt::format("The canary is frozen at {}: {}", place.text(), waits_text(run.progress));
  return fmt::format("The canary is at {}: {}", place.text(), waits_text(run.progress));
}

std::string shadow_why(const PromotionFacts& facts, const RunFacts& run) {
  const auto& phase = run.progress.phase;
  if (phase == "mirroring") {
    const auto wanted = facts.contract ? stages::pairs_asked_for(*facts.contract) : 0;
    const auto of = wanted > 0 ? fmt::format(" of at least {}", count_text(wanted)) : std::string();
    return fmt::format(
        "shadow-runtime mirrors requests to the candidate, whose answers nobody sees: {}{} pairs so far",
        count_text(run.progress.pairs), of);
  }
  if (phase == "stopping")
    return "shadow-runtime has its pairs; the data plane has not confirmed the end of mirroring yet";
  if (phase == "rescoring")
    return run.job ? fmt::format("shadow-runtime scores the mirrored answers on both engines: {}",
                                 job_text(*run.job))
                   : std::string("shadow-runtime decides on the mirrored answers");
  return "shadow-runtime begins; the data plane has not confirmed that it mirrors requests yet";
}

/// After a failed attempt the promotion's reason says what failed.
std::string attempt_text(const PromotionFacts& facts, const RunFacts& run) {
  if (run.row.key.attempt < 2 || facts.runs.size() < 2) return {};
  const auto& before = facts.runs[facts.runs.size() - 2];
  if (before.row.state != store::StageRunState::error) return {};
  return fmt::format(" (attempt {}, since the one before failed: {})", run.row.key.attempt, facts.row.reason);
}

std::string running_why(const PromotionFacts& facts) {
  const auto* const run = facts.newest();
  if (run == nullptr) return "It begins";
  if (is_stage(*run, Stage::canary)) return canary_why(facts, *run);
  if (is_stage(*run, Stage::shadow_runtime)) return shadow_why(facts, *run) + attempt_text(facts, *run);
  const auto doing = run->job ? job_text(*run->job) : std::string("its clauses are being decided");
  return fmt::format("{} is under way: {}{}", run->row.key.stage, doing, attempt_text(facts, *run));
}

bool waits_for_blackout(const PromotionFacts& facts) {
  return !facts.blackout.empty() && facts.row.requester.starts_with("schedule/");
}

bool is_held(const PromotionFacts& facts) {
  return facts.model && facts.model->hold;
}

std::string queued_why(const PromotionFacts& facts) {
  const auto& row = facts.row;
  if (!facts.holder.empty())
    return fmt::format("It waits for promotion {}, which has model {} now", facts.holder, row.model);
  if (is_held(facts))
    return fmt::format("It waits because model {} is on hold: {}", row.model, *facts.model->hold);
  if (waits_for_blackout(facts))
    return fmt::format("A schedule asked for it, and it waits for the end of the blackout '{}'",
                       facts.blackout);
  return "It is about to begin";
}

std::string paused_why(const PromotionFacts& facts) {
  const auto* const run = facts.canary();
  const auto where = run != nullptr            ? place_of(facts, *run).text()
                     : facts.row.stage.empty() ? std::string("the start")
                                               : facts.row.stage;
  return fmt::format("It is paused at {}, and tests of harm go on: {}", where, facts.row.reason);
}

std::string awaiting_why(const PromotionFacts& facts) {
  const auto* const run = facts.canary();
  if (run == nullptr) return facts.row.reason;
  const auto place = place_of(facts, *run);
  std::vector<std::string> given;
  for (const auto& one : facts.approvals) given.push_back(one.who);
  const auto so_far = given.empty()
                          ? std::string()
                          : fmt::format("; {} of them approved: {}", given.size(), list_text(given));
  return fmt::format("Every clause holds at {}; to {} it waits for the approval of {} other than {}{}",
                     place.text(), leaving_text(facts, place), people_text(facts.quorum.needed),
                     askers_text(facts), so_far);
}

std::string undecided_why(const PromotionFacts& facts) {
  if (facts.undecided.empty()) return facts.row.reason;
  const auto& first = facts.undecided.front();
  std::string text = fmt::format("{} could not decide: {}{}: {}", facts.row.stage, first.clause,
                                 first.slice.empty() ? "" : " on " + first.slice, first.message);
  const auto more = facts.undecided.size() - 1;
  if (more > 0)
    text += fmt::format(" {} more {} undecided", count_text(more), more == 1 ? "limit is" : "limits are");
  return text;
}

std::string ended_why(const PromotionFacts& facts) {
  const auto& row = facts.row;
  const bool taken_back = row.state == PromotionState::succeeded && row.traffic == store::Traffic::reverted;
  const char* const how = taken_back                               ? "It succeeded and was rolled back later"
                          : row.state == PromotionState::succeeded ? "It succeeded"
                          : row.state == PromotionState::rejected  ? "It was rejected"
                          : row.state == PromotionState::errored   ? "It ended in an error"
                          : row.state == PromotionState::aborted   ? "It was aborted"
                          : row.state == PromotionState::expired   ? "It expired"
                                                                   : "It was superseded";
  const bool says_more = !row.reason.empty() && row.reason != store::to_string(row.state);
  return says_more ? fmt::format("{}: {}", how, row.reason) : std::string(how);
}

std::string why_of(const PromotionFacts& facts) {
  switch (facts.row.state) {
    case PromotionState::queued:
      return queued_why(facts);
    case PromotionState::running:
      return running_why(facts);
    case PromotionState::paused:
      return paused_why(facts);
    case PromotionState::awaiting_approval:
      return awaiting_why(facts);
    case PromotionState::inconclusive:
      return undecided_why(facts);
    case PromotionState::rolling_back:
      return fmt::format(
          "It is being withdrawn; the data plane has not confirmed 0% for the candidate yet: {}",
          facts.row.reason);
    case PromotionState::finalizing:
      return "The bake is over; the data plane has not confirmed the candidate as the incumbent yet";
    default:
      return ended_why(facts);
  }
}

std::string canary_next(const PromotionFacts& facts, const RunFacts& run) {
  const auto* const plan = plan_of(facts);
  if (plan == nullptr) return {};
  if (run.progress.phase.empty() || run.progress.phase == "applying")
    return "The step begins when the data plane has confirmed its share";
  if (run.progress.frozen)
    return "The share can grow again when that has recovered; an operator may roll back before";
  const auto place = place_of(facts, run);
  const auto least_ms = place.is_bake() ? plan->bake_ms : plan->soak_ms;
  const auto earliest = utc_text(run.row.step_started_us + least_ms * 1'000);
  std::string text =
      place.is_bake()
          ? fmt::format("Not before {} it succeeds and the candidate becomes the incumbent", earliest)
          : fmt::format("Not before {} it can {}", earliest, leaving_text(facts, place));
  if (!place.is_bake() && plan->steps[place.step].approval)
    text += fmt::format(", which takes the approval of {}", people_text(plan->steps[place.step].approvals));
  if (plan->max_duration_ms)
    text +=
        fmt::format("; at {} it ends as inconclusive",
                    utc_text(run.row.step_started_us + std::max(*plan->max_duration_ms, least_ms) * 1'000));
  return text;
}

std::string running_next(const PromotionFacts& facts) {
  const auto* const run = facts.newest();
  if (run == nullptr) return {};
  if (is_stage(*run, Stage::canary)) return canary_next(facts, *run);
  const auto stage = schema::stage_from_name(run->row.key.stage);
  if (!stage) return {};
  const auto after = schema::to_string(static_cast<Stage>(static_cast<int>(*stage) + 1));
  if (run->progress.phase == "mirroring" && run->row.planned_end_us)
    return fmt::format("Mirroring lasts until {} at least; when shadow-runtime passes, the canary begins",
                       utc_text(*run->row.planned_end_us));
  return fmt::format("When {} passes, {} begins", run->row.key.stage, after);
}

std::string queued_next(const PromotionFacts& facts) {
  if (!facts.holder.empty())
    return fmt::format("It begins when {} has ended, unless that leaves a hold", facts.holder);
  if (is_held(facts)) return "It begins when an operator lifts the hold";
  if (waits_for_blackout(facts)) return "It begins when the blackout is over";
  return fmt::format("{} comes first", schema::to_string(Stage::offline_numeric));
}

std::string expiry_text(const PromotionFacts& facts, std::string_view unless) {
  if (!facts.row.deadline_us) return {};
  return fmt::format("It expires at {} unless {}", utc_text(*facts.row.deadline_us), unless);
}

std::string undecided_next(const PromotionFacts& facts) {
  const auto expiry =
      expiry_text(facts, facts.to_waive.empty() ? "an operator repeats the stage or ends it"
                                                : "its clauses are waived, or an operator repeats the "
                                                  "stage or ends it");
  if (facts.undecided.empty() || facts.undecided.front().advice.empty()) return expiry;
  return fmt::format("{} {}", sentence(facts.undecided.front().advice), expiry);
}

std::string next_of(const PromotionFacts& facts) {
  switch (facts.row.state) {
    case PromotionState::queued:
      return queued_next(facts);
    case PromotionState::running:
      return running_next(facts);
    case PromotionState::paused:
      return expiry_text(facts, "an operator resumes it");
    case PromotionState::awaiting_approval:
      return expiry_text(facts, "it is approved");
    case PromotionState::inconclusive:
      return undecided_next(facts);
    case PromotionState::rolling_back:
      return fmt::format("It ends as {} when that is confirmed",
                         store::to_string(facts.row.resume_state.value_or(PromotionState::errored)));
    case PromotionState::finalizing:
      return "It succeeds when that is confirmed";
    default:
      break;
  }
  const bool held = is_held(facts) && facts.model->hold_promotion == facts.row.id;
  return held ? fmt::format(
                    "Model {} is on hold because of it: nothing begins until an operator lifts the hold",
                    facts.row.model)
              : std::string();
}

Need approval_need(const PromotionFacts& facts) {
  const auto* const run = facts.canary();
  const auto what = run != nullptr ? leaving_text(facts, place_of(facts, *run)) : std::string("go on");
  return {"approve", "approver",
          fmt::format("Read the evidence and approve that it may {}: {} of {} have, and {} may not", what,
                      facts.approvals.size(), people_text(facts.quorum.needed), askers_text(facts))};
}

std::vector<Need> undecided_needs(const PromotionFacts& facts) {
  std::vector<Need> needs;
  std::vector<std::string> open;
  for (const auto& clause : facts.to_waive)
    if (!clause.is_waived()) open.push_back(clause.clause);
  if (!open.empty())
    needs.push_back({"waive", "approver",
                     fmt::format("Waive {}: it takes {} other than {} for each clause", list_text(open),
                                 people_text(kWaiversNeeded), askers_text(facts))});
  needs.push_back({"resume", "operator", fmt::format("Repeat {} with more data", facts.row.stage)});
  return needs;
}

std::vector<Need> needs_of(const PromotionFacts& facts) {
  switch (facts.row.state) {
    case PromotionState::awaiting_approval:
      return {approval_need(facts)};
    case PromotionState::inconclusive:
      return undecided_needs(facts);
    case PromotionState::paused:
      return {{"resume", "operator", "Resume it when the reason for the pause is gone"}};
    case PromotionState::queued:
      if (is_held(facts) && facts.holder.empty())
        return {{"lift_hold", "operator",
                 fmt::format("Lift the hold of model {} when what caused it is mended", facts.row.model)}};
      return {};
    default:
      return {};
  }
}

}  // namespace

std::string utc_text(std::int64_t time_us) {
  const std::chrono::sys_time<std::chrono::seconds> at{std::chrono::seconds(time_us / 1'000'000)};
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", at);
}

std::string sentence(std::string_view text) {
  std::string line = schema::utf8_text(text, kMaxSentenceBytes);
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (line.empty()) return line;
  if (line.front() >= 'a' && line.front() <= 'z') line.front() = static_cast<char>(line.front() - 'a' + 'A');
  if (!line.ends_with('.') && !line.ends_with('!') && !line.ends_with('?')) line += '.';
  return line;
}

Standing standing_of(const PromotionFacts& facts) {
  Standing standing{sentence(why_of(facts)), sentence(next_of(facts)), needs_of(facts)};
  for (auto& need : standing.needs) need.text = sentence(need.text);
  return standing;
}

}  // namespace driftgate::pipeline
