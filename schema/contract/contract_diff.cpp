#include "schema/contract/contract_diff.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "schema/contract/explain.hpp"
#include "schema/json.hpp"

namespace driftgate::schema {
namespace {

/// What a larger value asks of the checkpoint.
enum class Larger : std::uint8_t { is_stricter, is_looser, is_other };

/// One comparable setting of a contract.
struct Item {
  std::string where;
  std::string text;
  std::optional<double> value;
  Larger larger = Larger::is_other;
  std::string clause;  ///< address, for the items of a clause
};
using Items = std::vector<Item>;

std::string duration_text(std::int64_t ms) {
  if (ms % 60'000 == 0 && ms != 0) return fmt::format("{}m", ms / 60'000);
  if (ms % 1'000 == 0) return fmt::format("{}s", ms / 1'000);
  return fmt::format("{}ms", ms);
}
std::string share_text(std::uint32_t bp) {
  return ecmascript_number(bp / 10'000.0);
}

/// Gathers items below one prefix.
class Section {
 public:
  Section(Items& items, std::string prefix, std::string clause = {})
      : items_(items), prefix_(std::move(prefix)), clause_(std::move(clause)) {}

  void number(std::string_view name, std::optional<double> value, Larger larger) {
    if (value) add(name, ecmascript_number(*value), value, larger);
  }
  void duration(std::string_view name, std::int64_t ms, Larger larger) {
    add(name, duration_text(ms), static_cast<double>(ms), larger);
  }
  void share(std::string_view name, std::uint32_t bp, Larger larger) {
    add(name, share_text(bp), bp, larger);
  }
  void rank(std::string_view name, std::string_view text, double value, Larger larger) {
    add(name, std::string(text), value, larger);
  }
  void text(std::string_view name, std::string value) {
    if (!value.empty()) add(name, std::move(value), std::nullopt, Larger::is_other);
  }
  /// A member of a set: present in one contract only it is added or removed.
  void member(std::string_view name) { add(name, "yes", std::nullopt, Larger::is_stricter); }

 private:
  void add(std::string_view name, std::string text, std::optional<double> value, Larger larger) {
    items_.push_back({fmt::format("{}{}", prefix_, name), std::move(text), value, larger, clause_});
  }

  Items& items_;
  std::string prefix_, clause_;
};

void clause_items(const Clause& clause, Items& items) {
  Section out(items, clause.address() + " ", clause.address());
  const Limits& limits = clause.limits;
  Clause bare = clause;
  bare.limits = {};
  bare.slices.clear();
  bare.clip.reset();
  std::string subject = demand_text(bare);
  subject.erase(subject.find_last_not_of(' ') + 1);
  out.text("subject", std::move(subject));
  out.number("max", limits.max, Larger::is_looser);
  out.number("min", limits.min, Larger::is_stricter);
  // A larger cap takes more of each sequence's mean into account: a max is harder to keep, a min easier.
  out.number("clip", clause.clip, limits.min ? Larger::is_looser : Larger::is_stricter);
  out.number("max_ratio", limits.max_ratio, Larger::is_looser);
  out.number("max_delta", limits.max_delta, Larger::is_looser);
  out.number("non_inferiority_margin", limits.non_inferiority_margin, Larger::is_looser);
  out.number("min_coverage", limits.min_coverage, Larger::is_stricter);
  if (limits.min_count) out.number("min_count", static_cast<double>(*limits.min_count), Larger::is_stricter);
  if (limits.max_staleness_ms) out.duration("max_staleness", *limits.max_staleness_ms, Larger::is_looser);
  if (clause.min_sequences) out.number("min_sequences", *clause.min_sequences, Larger::is_stricter);
  out.number("floor_multiple", limits.floor_multiple, Larger::is_looser);
  out.number("floor_cap", limits.floor_cap, Larger::is_looser);
  const bool hard = clause.severity == Severity::hard;
  out.rank("severity", to_string(clause.severity), hard ? 1 : 0, Larger::is_stricter);
  const bool proof = requirement_of(clause) == Requirement::proof;
  out.rank("require", proof ? "proof" : "no_harm", proof ? 1 : 0, Larger::is_stricter);
  for (const SliceRole role : clause.slices) out.member(fmt::format("slices: {}", to_string(role)));
  for (std::size_t i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    if ((clause.stages & stage_bit(stage)) != 0) out.member(fmt::format("stages: {}", to_string(stage)));
  }
}

void assumption_items(const Contract& contract, Items& items) {
  Section kernels(items, "kernels.");
  kernels.text("train", contract.train_kernel);
  kernels.text("inf", contract.inf_kernel);
  kernels.text("fallback", contract.fallback_kernel);
  Section out(items, "assumptions.");
  const Assumptions& assumptions = contract.assumptions;
  if (assumptions.reward) {
    out.number("reward.min", assumptions.reward->min, Larger::is_other);
    out.number("reward.max", assumptions.reward->max, Larger::is_other);
  }
  if (assumptions.policy) {
    // A larger advantage or score makes each policy_gradient bound larger, so its clause harder to keep.
    out.number("policy.advantage_max", assumptions.policy->advantage_max, Larger::is_stricter);
    out.number("policy.score_norm_max", assumptions.policy->score_norm_max, Larger::is_stricter);
    out.number("policy.ppo_clip", assumptions.policy->ppo_clip, Larger::is_looser);
    out.number("policy.is_clip", assumptions.policy->is_clip, Larger::is_other);
  }
  if (assumptions.max_tokens > 0) out.number("max_tokens", assumptions.max_tokens, Larger::is_stricter);
  // Shared swings leave a candidate no allowance for its own.
  const bool shared = assumptions.swings == Swings::shared;
  out.rank("swings", to_string(assumptions.swings), shared ? 1 : 0, Larger::is_stricter);
  Section(items, "measurement.").number("top_k", contract.top_k, Larger::is_other);
}

void slice_items(const Slices& slices, Items& items) {
  Section out(items, "slices.");
  for (const std::string& dimension : slices.dimensions) out.member("dimensions: " + dimension);
  out.number("min_sequences", slices.min_sequences, Larger::is_stricter);
  for (const SliceWhere& where : slices.critical) out.member("critical: " + slice_text(where));
  if (slices.discover) {
    out.number("discover.depth", slices.discover->depth, Larger::is_stricter);
    const bool block = slices.discover->block;
    out.rank("discover.action", block ? "block" : "report", block ? 1 : 0, Larger::is_stricter);
    out.number("discover.max_ratio", slices.discover->max_ratio, Larger::is_looser);
  }
  out.text("prompt_length_bounds", fmt::format("{}", fmt::join(slices.prompt_length_bounds, ", ")));
}

void stage_items(const Contract& contract, Items& items) {
  Section shadow(items, "stages.shadow-runtime.");
  shadow.share("mirror_share", contract.shadow.mirror_bp, Larger::is_other);
  shadow.duration("min_duration", contract.shadow.min_duration_ms, Larger::is_stricter);
  shadow.duration("max_duration", contract.shadow.max_duration_ms, Larger::is_other);
  shadow.number("mirror_token_budget", static_cast<double>(contract.shadow.mirror_token_budget),
                Larger::is_other);
  if (!contract.canary) return;
  Section canary(items, "stages.canary.");
  const CanaryPlan& plan = *contract.canary;
  std::vector<std::string> shares;
  for (const CanaryStep& step : plan.steps) shares.push_back(share_text(step.share_bp));
  canary.text("steps", fmt::format("{}", fmt::join(shares, ", ")));
  for (const CanaryStep& step : plan.steps)
    if (step.approval)
      canary.number("approvals at " + share_text(step.share_bp), step.approvals, Larger::is_stricter);
  canary.duration("soak", plan.soak_ms, Larger::is_stricter);
  canary.duration("bake", plan.bake_ms, Larger::is_stricter);
  if (plan.burst_ms) canary.duration("burst", *plan.burst_ms, Larger::is_other);
  canary.share("holdback", plan.holdback_bp, Larger::is_other);
  canary.number("min_keys", static_cast<double>(plan.min_keys), Larger::is_stricter);
  if (plan.max_exposure)
    canary.number("max_exposure", static_cast<double>(*plan.max_exposure), Larger::is_looser);
  if (plan.max_duration_ms) canary.duration("max_duration", *plan.max_duration_ms, Larger::is_looser);
  canary.duration("telemetry.freeze_after", plan.freeze_after_ms, Larger::is_looser);
  canary.duration("telemetry.revert_after", plan.revert_after_ms, Larger::is_looser);
  canary.duration("approval_deadline", plan.approval_deadline_ms, Larger::is_other);
  canary.duration("approval_valid_for", plan.approval_valid_ms, Larger::is_looser);
}

void guard_items(const Contract& contract, Items& items) {
  if (!contract.guard) return;
  Section out(items, "guard.");
  const GuardPlan& guard = *contract.guard;
  const auto action = [&](std::string_view name, Action value) {
    out.rank(name, to_string(value), static_cast<double>(value), Larger::is_stricter);
  };
  out.duration("mean_time_between_false_alarms", guard.mean_time_between_false_alarms_ms, Larger::is_looser);
  out.number("probes.prompts", guard.probes.prompts, Larger::is_stricter);
  out.duration("probes.every", guard.probes.every_ms, Larger::is_looser);
  out.number("probes.budget_tokens", static_cast<double>(guard.probes.budget_tokens), Larger::is_stricter);
  action("probes.action", guard.probes.action);
  out.duration("identity.every", guard.identity.every_ms, Larger::is_looser);
  action("identity.action", guard.identity.action);
  if (!guard.rescoring) return;
  out.share("rescoring.share", guard.rescoring->share_bp, Larger::is_stricter);
  out.number("rescoring.budget_tokens", static_cast<double>(guard.rescoring->budget_tokens),
             Larger::is_stricter);
}

void policy_items(const Contract& contract, Items& items) {
  // α is shared by proof and harm: a smaller one asks for more proof and needs more harm to be violated.
  Section confidence(items, "confidence.");
  confidence.number("alpha", contract.confidence.alpha, Larger::is_other);
  const bool exact = contract.confidence.means == Means::exact;
  confidence.rank("means", to_string(contract.confidence.means), exact ? 1 : 0, Larger::is_stricter);
  confidence.number("alpha_harm", contract.confidence.alpha_harm, Larger::is_stricter);
  confidence.number("alpha_advance", contract.confidence.alpha_advance, Larger::is_looser);
  const Escalation& escalation = contract.escalation;
  Section rules(items, "escalation ");
  for (const EscalationRule& rule : escalation.rules) {
    std::string key = rule.match;
    if (rule.severity) key += fmt::format(", {}", to_string(*rule.severity));
    if (rule.stage) key += fmt::format(", {}", to_string(*rule.stage));
    if (rule.guard) key += ", guard";
    if (rule.any_slice) key += ", any slice";
    if (rule.slice) key += ", " + slice_text(*rule.slice);
    rules.rank(key, to_string(rule.action), static_cast<double>(rule.action), Larger::is_stricter);
  }
  const auto action = [&](std::string_view name, Action value) {
    rules.rank(name, to_string(value), static_cast<double>(value), Larger::is_stricter);
  };
  action("default of hard", escalation.hard_default);
  action("default of soft", escalation.soft_default);
  rules.number("recovery clean_windows", escalation.recovery.clean_windows, Larger::is_stricter);
  rules.duration("recovery min_dwell", escalation.recovery.min_dwell_ms, Larger::is_stricter);
}

Items items_of(const Contract& contract) {
  Items items;
  assumption_items(contract, items);
  slice_items(contract.slices, items);
  for (const Clause& clause : contract.clauses) clause_items(clause, items);
  stage_items(contract, items);
  guard_items(contract, items);
  policy_items(contract, items);
  return items;
}

const Item* find(const Items& items, const std::string& where) {
  const auto found = std::ranges::find(items, where, &Item::where);
  return found == items.end() ? nullptr : &*found;
}

const Clause* find_clause(const Contract& contract, const std::string& address) {
  const auto found = std::ranges::find_if(contract.clauses,
                                          [&](const Clause& clause) { return clause.address() == address; });
  return found == contract.clauses.end() ? nullptr : &*found;
}

ChangeKind direction(const Item& before, const Item& after) {
  if (!before.value || !after.value || after.larger == Larger::is_other) return ChangeKind::changed;
  const bool grew = *after.value > *before.value;
  return grew == (after.larger == Larger::is_stricter) ? ChangeKind::stricter : ChangeKind::looser;
}

/// A limit, role or stage that a clause has in one contract only makes that one the stricter.
ChangeKind one_sided(const Item& item, bool appeared) {
  if (item.clause.empty()) return appeared ? ChangeKind::added : ChangeKind::removed;
  // Its absence is that of slices.min_sequences, which may be the larger or the smaller one.
  if (item.where.ends_with(" min_sequences")) return ChangeKind::changed;
  if (item.where.ends_with(" floor_multiple") || item.where.ends_with(" floor_cap") ||
      item.where.ends_with(" clip")) {
    return appeared ? ChangeKind::looser : ChangeKind::stricter;
  }
  return appeared ? ChangeKind::stricter : ChangeKind::looser;
}

bool whole_clause(const Contract& other, const Item& item, std::vector<std::string>& told) {
  if (item.clause.empty() || find_clause(other, item.clause) != nullptr) return false;
  if (std::ranges::find(told, item.clause) == told.end()) told.push_back(item.clause);
  return true;
}

}  // namespace

std::string_view to_string(ChangeKind kind) {
  constexpr std::array<std::string_view, 5> names{"stricter", "looser", "added", "removed", "changed"};
  return names.at(static_cast<std::size_t>(kind));
}

std::vector<ContractChange> contract_diff(const Contract& before, const Contract& after) {
  const Items old_items = items_of(before);
  const Items new_items = items_of(after);
  std::vector<ContractChange> changes;
  std::vector<std::string> gone, fresh;
  for (const Item& item : old_items) {
    if (whole_clause(after, item, gone)) continue;
    const Item* now = find(new_items, item.where);
    if (now == nullptr) {
      changes.push_back({one_sided(item, false), item.where, item.text, {}});
    } else if (now->text != item.text) {
      changes.push_back({direction(item, *now), item.where, item.text, now->text});
    }
  }
  for (const Item& item : new_items) {
    if (whole_clause(before, item, fresh) || find(old_items, item.where) != nullptr) continue;
    changes.push_back({one_sided(item, true), item.where, {}, item.text});
  }
  for (const std::string& address : gone)
    changes.push_back({ChangeKind::removed, address, demand_text(*find_clause(before, address)), {}});
  for (const std::string& address : fresh)
    changes.push_back({ChangeKind::added, address, {}, demand_text(*find_clause(after, address))});
  return changes;
}

std::string to_text(const std::vector<ContractChange>& changes) {
  if (changes.empty()) return "No difference in what is demanded.\n";
  std::string text;
  for (const ChangeKind kind : {ChangeKind::stricter, ChangeKind::looser, ChangeKind::added,
                                ChangeKind::removed, ChangeKind::changed}) {
    bool first = true;
    for (const ContractChange& change : changes) {
      if (change.kind != kind) continue;
      if (first) text += fmt::format("{}\n", to_string(kind));
      first = false;
      const bool both = !change.before.empty() && !change.after.empty();
      const std::string what = both ? fmt::format("{} → {}", change.before, change.after)
                                    : (change.after.empty() ? change.before + " → (not stated)"
                                                            : "(not stated) → " + change.after);
      text += fmt::format("  {}: {}\n", change.where, what);
    }
  }
  return text;
}

std::string to_json(const std::vector<ContractChange>& changes) {
  auto list = nlohmann::json::array();
  for (const ContractChange& change : changes) {
    list.push_back({{"kind", to_string(change.kind)},
                    {"where", change.where},
                    {"before", change.before},
                    {"after", change.after}});
  }
  return canonical_json(list);
}

}  // namespace driftgate::schema
