#include "daemon/evidence/verify/derivation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "daemon/base/entry_members.hpp"
#include "schema/names.hpp"
#include "schema/verdict_rule.hpp"

namespace driftgate::evidence {

using schema::Entry;
using schema::EntryValue;
using schema::EvidenceKind;
using schema::Verdict;

namespace {

constexpr std::array<std::string_view, 4> kStages = {"offline-numeric", "statistical-slice", "shadow-runtime",
                                                     "canary"};
constexpr std::array<std::string_view, 6> kTerminal = {"succeeded", "rejected", "errored",
                                                       "aborted",   "expired",  "superseded"};
constexpr std::string_view kDaemon = "driftgate";
constexpr std::size_t kPeople = 2;  ///< who must waive an inconclusive clause

/// The members of a body that are read as text where they are present.
std::span<const std::string_view> texts_of(EvidenceKind kind) {
  static constexpr std::array<std::string_view, 8> kOfVerdict = {
      "scope", "slice", "verdict", "action", "inputs_digest", "report_digest", "code_version", "seed"};
  static constexpr std::array<std::string_view, 4> kOfState = {"from", "to", "stage", "traffic"};
  static constexpr std::array<std::string_view, 3> kOfPeople = {"decision", "clause", "evidence_digest"};
  static constexpr std::array<std::string_view, 1> kOfSchedule = {"owner"};
  switch (kind) {
    case EvidenceKind::verdict_reached:
      return kOfVerdict;
    case EvidenceKind::state_changed:
      return kOfState;
    case EvidenceKind::approval_given:
    case EvidenceKind::waiver_given:
      return kOfPeople;
    case EvidenceKind::schedule_fired:
      return kOfSchedule;
    default:
      return {};
  }
}

/// The first member of an entry that should be text and is not, or nothing.
std::string_view untextual(const Entry& entry) {
  for (const std::string_view name : texts_of(entry.draft.kind)) {
    const auto found = entry.draft.body.find(name);
    if (found != entry.draft.body.end() && found->second.text() == nullptr) return name;
  }
  return {};
}

/// Who set the recipe that parts of a request came from (docs/evidence.md); "" where nothing did.
std::string recipe_setter(const EntryValue::Object& body) {
  const EntryValue::Object* at = &body;
  for (const std::string_view name : {"request", "recipe"}) {
    const auto found = at->find(name);
    at = found == at->end() ? nullptr : found->second.object();
    if (at == nullptr) return {};
  }
  return base::text_at(*at, "set_by");
}

/// The verdict that a stage's decision should have: by its clauses, and in the canary by its action too.
Verdict stage_verdict(const StageDecision& decision) {
  const Verdict together = schema::combine(decision.clauses, decision.rules);
  if (decision.action.empty()) return together;
  if (decision.action == "failed" || decision.action == "revert") return Verdict::error;
  if (!decision.ended) return together == Verdict::pass ? Verdict::inconclusive : together;
  if (decision.action == "finish") return together;
  if (decision.action == "inconclusive") return Verdict::inconclusive;
  const bool harm = std::ranges::any_of(decision.clauses, [](const schema::ClauseVerdict& clause) {
    return clause.verdict == Verdict::violated;
  });
  return harm ? Verdict::violated : together;
}

/// Whether this clause alone makes its stage inconclusive, which a hard clause does.
bool keeps_from_passing(const schema::ClauseVerdict& clause) {
  return schema::combine({clause}, clause.rules) == Verdict::inconclusive;
}

}  // namespace

PromotionDerivation::PromotionDerivation(OnFault on_fault, std::int64_t first_seq)
    : on_fault_(std::move(on_fault)), first_seq_(first_seq) {}

void PromotionDerivation::follow(const Entry& entry) {
  const auto& body = entry.draft.body;
  if (const std::string_view name = untextual(entry); !name.empty()) {
    return on_fault_(entry.seq, fmt::format("body/{} must be a text", name));
  }
  if (entry.draft.subject.contract) named_.insert(*entry.draft.subject.contract);
  for (const char* name : {"inputs_digest", "report_digest", "evidence_digest"}) {
    const auto digest = base::text_at(body, name);
    if (!digest.empty()) named_.insert(digest);
  }
  switch (entry.draft.kind) {
    case EvidenceKind::promotion_requested:
      return requested(entry);
    case EvidenceKind::schedule_fired:
      askers_.insert(std::string(base::text_at(body, "owner")));
      return;
    case EvidenceKind::verdict_reached:
      return base::text_at(body, "scope") == "stage" ? stage_decided(entry) : clause_decided(entry);
    case EvidenceKind::state_changed:
      return state_changed(entry);
    case EvidenceKind::approval_given:
    case EvidenceKind::waiver_given:
      return person_decided(entry);
    default:
      return;
  }
}

void PromotionDerivation::requested(const Entry& entry) {
  whole_ = true;
  subject_ = entry.draft.subject;
  askers_.insert(entry.draft.actor);
  if (auto setter = recipe_setter(entry.draft.body); !setter.empty()) askers_.insert(std::move(setter));
  state_ = "queued";
}

void PromotionDerivation::clause_decided(const Entry& entry) {
  ++verdicts_;
  const auto& subject = entry.draft.subject;
  auto verdict = clause_verdict_of(entry.draft.body);
  if (!verdict) return on_fault_(entry.seq, verdict.error().message);
  for (const auto& [name, digest] : verdict->tables) named_.insert(digest);
  check_derived(entry.seq, *verdict);
  if (!entry.draft.body.contains("slice") ||
      base::text_at(entry.draft.body, "slice") != schema::slice_text(verdict->where)) {
    on_fault_(entry.seq, fmt::format("body/slice of {} is not what body/where says", verdict->clause));
  }
  const std::string stage = subject.stage.value_or("");
  const std::int64_t attempt = subject.attempt.value_or(0);
  const std::string fault = contract_ ? contract_->fault(*verdict, stage) : std::string();
  if (!fault.empty()) on_fault_(entry.seq, fault);
  if (!pending_.empty() && (pending_.back().seq + 1 != entry.seq || pending_.back().stage != stage ||
                            pending_.back().attempt != attempt)) {
    on_fault_(pending_.front().seq, "this verdict belongs to no decision of a stage");
    pending_.clear();
  }
  pending_.push_back({entry.seq, stage, attempt, entry.draft.body.contains("rules"), std::move(*verdict)});
}

void PromotionDerivation::check_derived(std::int64_t seq, const schema::ClauseVerdict& verdict) {
  const auto follows = schema::rederive(verdict);
  if (!follows) {
    on_fault_(seq, follows.error().message);
  } else if (*follows != verdict.verdict) {
    on_fault_(seq, fmt::format("body/verdict of {} is {}; by the rule {} its recorded numbers give {}",
                               verdict.clause, schema::to_string(verdict.verdict),
                               schema::to_string(verdict.rule), schema::to_string(*follows)));
  }
}

void PromotionDerivation::check_batch(const StageDecision& decision, std::int64_t first, std::int64_t count,
                                      bool states_rules) {
  if (first < 0 || count < 0) {
    return on_fault_(decision.seq, "body/first or body/count of a stage's decision is missing");
  }
  if (count > 0 && first < first_seq_) return;
  if (schema::find_rules(decision.rules) == nullptr) {
    return on_fault_(
        decision.seq,
        fmt::format("body/rules is {}, a version that this program does not know: use a newer one",
                    decision.rules));
  }
  const bool one_version = std::ranges::all_of(pending_, [&](const Pending& item) {
    return item.verdict.rules == decision.rules && item.states_rules == states_rules;
  });
  if (!one_version) {
    return on_fault_(decision.seq, "body/rules is not the version of the verdicts that it follows from");
  }
  const bool same = std::ranges::all_of(pending_, [&](const Pending& item) {
    return item.stage == decision.stage && item.attempt == decision.attempt;
  });
  const bool counted = static_cast<std::size_t>(count) == pending_.size() &&
                       (pending_.empty() || pending_.front().seq == first);
  if (!same || !counted) {
    return on_fault_(decision.seq,
                     fmt::format("body/first and body/count name {} verdicts from {} on, the log has {} for "
                                 "this decision",
                                 count, first, pending_.size()));
  }
  const Verdict follows = stage_verdict(decision);
  if (follows != decision.verdict) {
    on_fault_(decision.seq,
              fmt::format("body/verdict of {} is {}; its clauses and its action give {}", decision.stage,
                          schema::to_string(decision.verdict), schema::to_string(follows)));
  }
  const bool goes_on = decision.action == "advance" || decision.action == "wait_approval";
  if (goes_on && schema::combine(decision.clauses, decision.rules) != Verdict::pass) {
    on_fault_(decision.seq, fmt::format("body/action {} needs every hard clause to pass", decision.action));
  }
}

void PromotionDerivation::stage_decided(const Entry& entry) {
  const auto& body = entry.draft.body;
  StageDecision decision;
  decision.seq = entry.seq;
  decision.stage = entry.draft.subject.stage.value_or("");
  decision.attempt = entry.draft.subject.attempt.value_or(0);
  const auto verdict = schema::verdict_from_name(base::text_at(body, "verdict"));
  const auto ended = body.find("ended");
  if (!verdict || ended == body.end() || ended->second.boolean() == nullptr) {
    pending_.clear();
    return on_fault_(entry.seq, "body/verdict or body/ended of a stage's decision is missing");
  }
  decision.verdict = *verdict;
  decision.ended = *ended->second.boolean();
  decision.action = base::text_at(body, "action");
  decision.inputs_digest = base::text_at(body, "inputs_digest");
  decision.report_digest = base::text_at(body, "report_digest");
  decision.code_version = base::text_at(body, "code_version");
  decision.seed = base::text_at(body, "seed");
  decision.run = base::integer_at(body, "run", 0);
  const bool states_rules = body.contains("rules");
  const std::int64_t rules = states_rules ? base::integer_at(body, "rules", 0) : schema::kFirstRules;
  decision.rules = rules > 0 && rules <= UINT32_MAX ? static_cast<std::uint32_t>(rules) : 0;
  for (const Pending& item : pending_) decision.clauses.push_back(item.verdict);
  check_batch(decision, base::integer_at(body, "first", -1), base::integer_at(body, "count", -1),
              states_rules);
  pending_.clear();
  if (decision.ended) decisions_.push_back(std::move(decision));
}

void PromotionDerivation::state_changed(const Entry& entry) {
  const auto& body = entry.draft.body;
  const std::string from = base::text_at(body, "from");
  const std::string to = base::text_at(body, "to");
  if (!state_.empty() && from != state_) {
    on_fault_(entry.seq, fmt::format("body/from is {}, and the promotion was {}", from, state_));
  }
  check_progress(entry.seq, base::text_at(body, "stage"));
  const bool was_ended = has_ended();
  state_ = to;
  traffic_ = base::text_at(body, "traffic");
  if (has_ended() && !was_ended) ended_us_ = entry.draft.time_us;
  check_end(entry);
}

/// A later stage begins only when the one before it passed or was waived.
void PromotionDerivation::check_progress(std::int64_t seq, const std::string& to_stage) {
  const auto place = std::ranges::find(kStages, to_stage);
  if (whole_ && place != kStages.end() && place != kStages.begin() && to_stage != stage_) {
    const std::string before(*(place - 1));
    if (!is_passed(before)) {
      on_fault_(seq, fmt::format("body/stage is {}, and {} was neither passed nor waived", to_stage, before));
    }
  }
  stage_ = to_stage;
}

void PromotionDerivation::check_end(const Entry& entry) {
  if (!whole_) return;
  if (state_ == "succeeded") {
    for (const std::string_view stage : kStages) {
      if (is_passed(std::string(stage))) continue;
      on_fault_(entry.seq, fmt::format("body/to is succeeded, and {} was neither passed nor waived", stage));
    }
  }
  const bool violated = std::ranges::any_of(
      decisions_, [](const StageDecision& decision) { return decision.verdict == Verdict::violated; });
  if (state_ == "rejected" && !violated && entry.draft.actor == kDaemon) {
    on_fault_(entry.seq, "body/to is rejected, and neither was a stage violated nor did a person ask for it");
  }
}

void PromotionDerivation::person_decided(const Entry& entry) {
  const auto& body = entry.draft.body;
  const std::string decision = base::text_at(body, "decision");
  const bool approval = entry.draft.kind == EvidenceKind::approval_given;
  if (decision != (approval ? "approve" : "waive")) return;  // what was refused has no effect
  const auto rule = body.find("people_rule");
  const auto* number = rule == body.end() ? nullptr : rule->second.integer();
  const bool by_identity = number != nullptr && *number >= schema::kPeopleByIdentity;
  if (asked_for(entry.draft.actor, by_identity)) {
    return on_fault_(entry.seq, fmt::format("actor {} asked for the promotion and may not {} it",
                                            entry.draft.actor, decision));
  }
  if (!approval) {
    auto& given = waivers_[base::text_at(body, "evidence_digest") + " " + base::text_at(body, "clause")];
    given.names.insert(entry.draft.actor);
    given.identities.insert(schema::identity_of(entry.draft.actor));
    given.by_identity = given.by_identity || by_identity;
  }
}

bool PromotionDerivation::asked_for(const std::string& actor, bool by_identity) const {
  return std::ranges::any_of(askers_, [&](const std::string& asker) {
    return asker == actor || (by_identity && schema::is_same_identity(asker, actor));
  });
}

bool PromotionDerivation::is_waived(const StageDecision& decision) const {
  return std::ranges::all_of(decision.clauses, [&](const schema::ClauseVerdict& clause) {
    if (!keeps_from_passing(clause)) return true;
    const auto given = waivers_.find(decision.report_digest + " " + clause.clause);
    if (given == waivers_.end()) return false;
    return (given->second.by_identity ? given->second.identities : given->second.names).size() >= kPeople;
  });
}

bool PromotionDerivation::is_passed(const std::string& stage) const {
  for (auto it = decisions_.rbegin(); it != decisions_.rend(); ++it) {
    if (it->stage != stage) continue;
    return it->verdict == Verdict::pass || (it->verdict == Verdict::inconclusive && is_waived(*it));
  }
  return false;
}

bool PromotionDerivation::has_ended() const {
  return std::ranges::find(kTerminal, state_) != kTerminal.end();
}

}  // namespace driftgate::evidence
