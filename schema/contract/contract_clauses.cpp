#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "schema/contract/contract_parse.hpp"

namespace driftgate::schema::detail {
namespace {

constexpr StageSet kTraffic =
    static_cast<StageSet>(stage_bit(Stage::shadow_runtime) | stage_bit(Stage::canary));

struct FamilyRules {
  Family family;
  StageSet default_stages;
  std::vector<std::string_view> subjects;
};

const std::array<FamilyRules, 4>& family_rules() {
  static const std::array<FamilyRules, 4> kRules{{
      {Family::numerical, stage_bit(Stage::offline_numeric), {"metric", "bound", "tensor"}},
      {Family::statistical, stage_bit(Stage::statistical_slice), {"metric", "outcome", "tensor"}},
      {Family::runtime, kTraffic, {"metric"}},
      {Family::observability, kTraffic, {"signal"}},
  }};
  return kRules;
}

std::vector<std::string_view> metric_names(bool signals) {
  std::vector<std::string_view> names;
  for (const MetricInfo& entry : metric_registry()) {
    if ((entry.group == MetricGroup::signal) == signals) names.push_back(entry.name);
  }
  return names;
}

std::vector<std::string_view> stage_names(StageSet stages) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    if ((stages & stage_bit(stage)) != 0) names.push_back(to_string(stage));
  }
  return names;
}

std::optional<Metric> read_metric(const Cursor& at, bool signals) {
  const auto names = metric_names(signals);
  const auto index = read_choice(at, names);
  if (!index) return std::nullopt;
  return metric_from_name(names[*index]);
}

// Each sequence counts once unless the clause says otherwise.
std::optional<Aggregate> read_aggregate(Fields& fields, Metric metric) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kAggregateCount; ++i) {
    const auto aggregate = static_cast<Aggregate>(i);
    if ((info(metric).aggregates & aggregate_bit(aggregate)) != 0) names.push_back(to_string(aggregate));
  }
  const auto at = fields.find("aggregate");
  if (names.empty()) {
    if (at) at->refuse(fmt::format("{} is one figure by itself; remove \"aggregate\"", to_string(metric)));
    return std::nullopt;
  }
  if (!at && (info(metric).aggregates & aggregate_bit(Aggregate::sequence_mean)) != 0) {
    return Aggregate::sequence_mean;
  }
  if (!at) {
    fields.cursor().refuse(fmt::format("the field \"aggregate\" is missing; allowed for {}: {}",
                                       to_string(metric), fmt::join(names, ", ")));
    return std::nullopt;
  }
  const bool named = at->node.kind == DocumentNode::Kind::text;
  if (named && aggregate_from_name(at->node.text) && !std::count(names.begin(), names.end(), at->node.text)) {
    at->refuse(fmt::format("the aggregate {} makes no sense for {}; allowed: {}", at->node.text,
                           to_string(metric), fmt::join(names, ", ")));
    return std::nullopt;
  }
  const auto index = read_choice(*at, names);
  return index ? aggregate_from_name(names[*index]) : std::nullopt;
}

// band_retention is six figures, so that a clause on it names one; no other metric has bands.
std::optional<Band> read_band(Fields& fields, Metric metric) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kBandCount; ++i) names.push_back(to_string(static_cast<Band>(i)));
  const auto at = fields.find("band");
  if (metric != Metric::band_retention) {
    if (at) at->refuse(fmt::format("{} has no bands; remove \"band\"", to_string(metric)));
    return std::nullopt;
  }
  if (!at) {
    fields.cursor().refuse(
        fmt::format("the field \"band\" is missing; allowed for band_retention: {}", fmt::join(names, ", ")));
    return std::nullopt;
  }
  const auto index = read_choice(*at, names);
  return index ? band_from_name(names[*index]) : std::nullopt;
}

std::optional<Subject> read_bound(Fields& fields, const Cursor& at, const Assumptions& assumptions) {
  static constexpr std::array<std::string_view, kBoundCount> kBounds{"tv", "reward", "sequence",
                                                                     "policy_gradient"};
  static constexpr std::array<std::string_view, 2> kHorizons{"token", "sequence"};
  const auto horizon_at = fields.find("horizon");
  const auto index = read_choice(at, kBounds);
  if (!index) return std::nullopt;
  BoundSubject subject{static_cast<Bound>(*index), Horizon::token};
  if (subject.bound == Bound::sequence) subject.horizon = Horizon::sequence;
  if (horizon_at) {
    const auto horizon = read_choice(*horizon_at, kHorizons);
    if (horizon && *horizon == 0 && subject.bound == Bound::sequence) {
      horizon_at->refuse(
          "the bound sequence is about whole sequences; write horizon: sequence, or bound: tv");
    }
    if (horizon) subject.horizon = static_cast<Horizon>(*horizon);
  }
  if (subject.bound == Bound::reward && !assumptions.reward) {
    at.refuse("the bound reward needs the range of rewards; state assumptions.reward: {min, max}");
  }
  if (subject.bound == Bound::policy_gradient && !assumptions.policy) {
    at.refuse("the bound policy_gradient needs assumptions.policy: {advantage_max, score_norm_max}");
  }
  if (subject.bound == Bound::policy_gradient && subject.horizon == Horizon::sequence &&
      assumptions.max_tokens == 0) {
    at.refuse("the bound policy_gradient over sequences needs assumptions.max_tokens");
  }
  return subject;
}

// An exact clause: the two kernels must agree bit by bit.
std::optional<Subject> read_tensor(Fields& fields, const Cursor& at) {
  static constexpr std::array<std::string_view, 3> kTensors{"logits", "logprobs", "tokens"};
  if (const auto equal = fields.need("equal")) {
    if (!read_flag(*equal).value_or(true)) {
      equal->refuse("a clause on a tensor holds the two kernels to the same bits; write equal: true, or limit a "
                    "metric of the difference");
    }
  }
  const auto index = read_choice(at, kTensors);
  if (!index) return std::nullopt;
  return ExactSubject{static_cast<ExactTensor>(*index)};
}

std::optional<Subject> read_subject(Fields& fields, const FamilyRules& rules, const Contract& contract) {
  std::vector<std::pair<std::string_view, Cursor>> stated;
  for (const std::string_view kind : {"metric", "bound", "outcome", "signal", "tensor"}) {
    if (auto at = fields.find(kind)) stated.emplace_back(kind, std::move(*at));
  }
  if (stated.size() != 1) {
    fields.cursor().refuse(fmt::format("a clause names exactly one of {}; found {}",
                                       fmt::join(rules.subjects, ", "), stated.size()));
    return std::nullopt;
  }
  const auto& [kind, at] = stated.front();
  if (!std::count(rules.subjects.begin(), rules.subjects.end(), kind)) {
    at.refuse(fmt::format("a {} clause has no \"{}\"; allowed: {}", to_string(rules.family), kind,
                          fmt::join(rules.subjects, ", ")));
    return std::nullopt;
  }
  if (kind == "bound") return read_bound(fields, at, contract.assumptions);
  if (kind == "outcome") {
    static constexpr std::array<std::string_view, 1> kOutcomes{"correct"};
    if (!read_choice(at, kOutcomes)) return std::nullopt;
    return OutcomeSubject{"correct"};
  }
  if (kind == "tensor") return read_tensor(fields, at);
  const auto metric = read_metric(at, kind == "signal");
  if (!metric) return std::nullopt;
  if (kind == "signal") return SignalSubject{*metric};
  const auto aggregate = read_aggregate(fields, *metric);
  const auto band = read_band(fields, *metric);
  if (!aggregate && info(*metric).aggregates != 0) return std::nullopt;
  if (!band && *metric == Metric::band_retention) return std::nullopt;
  return MetricSubject{*metric, aggregate, band};
}

StageSet supplied_by(const Subject& subject) {
  if (const auto* metric = std::get_if<MetricSubject>(&subject)) return info(metric->metric).stages;
  if (const auto* signal = std::get_if<SignalSubject>(&subject)) return info(signal->signal).stages;
  if (std::holds_alternative<ExactSubject>(subject)) {
    return static_cast<StageSet>(stage_bit(Stage::offline_numeric) | stage_bit(Stage::statistical_slice));
  }
  return std::holds_alternative<BoundSubject>(subject) ? stage_bit(Stage::offline_numeric)
                                                       : stage_bit(Stage::statistical_slice);
}

std::string subject_name(const Subject& subject) {
  if (const auto* metric = std::get_if<MetricSubject>(&subject))
    return std::string(to_string(metric->metric));
  if (const auto* signal = std::get_if<SignalSubject>(&subject))
    return std::string(to_string(signal->signal));
  if (const auto* bound = std::get_if<BoundSubject>(&subject))
    return fmt::format("the bound {}", to_string(bound->bound));
  if (const auto* exact = std::get_if<ExactSubject>(&subject))
    return fmt::format("the bits of the {}", to_string(exact->tensor));
  return "outcomes";
}

StageSet read_stages(const Cursor& at, const Subject& subject) {
  StageSet stages = 0;
  const StageSet supply = supplied_by(subject);
  const auto names = stage_names(0xF);
  read_list(at, kStageCount, [&](const Cursor& item) {
    const auto index = read_choice(item, names);
    if (!index) return;
    const auto stage = static_cast<Stage>(*index);
    if ((supply & stage_bit(stage)) == 0) {
      item.refuse(fmt::format("{} cannot supply {}; allowed: {}", to_string(stage), subject_name(subject),
                              fmt::join(stage_names(supply), ", ")));
    } else if ((stages & stage_bit(stage)) != 0) {
      item.refuse(fmt::format("the stage {} appears twice", to_string(stage)));
    }
    stages = static_cast<StageSet>(stages | stage_bit(stage));
  });
  if (at.node.kind == DocumentNode::Kind::list && at.node.items.empty()) at.refuse_kind("at least one stage");
  return stages;
}

// The family's stages that can supply the subject; none is a fault.
StageSet default_stages(const Cursor& at, const FamilyRules& rules, const Subject& subject) {
  const StageSet supply = supplied_by(subject);
  const auto stages = static_cast<StageSet>(rules.default_stages & supply);
  if (stages == 0) {
    at.refuse(fmt::format(
        "no stage of the {} family can supply {}; it is supplied in: {}; move the clause to another "
        "family or state its stages",
        to_string(rules.family), subject_name(subject), fmt::join(stage_names(supply), ", ")));
  }
  return stages;
}

void read_slices(const Cursor& at, Clause& clause, const Slices& slices) {
  static constexpr std::array<std::string_view, 2> kRoles{"critical", "monitored"};
  read_list(at, kRoles.size(), [&](const Cursor& item) {
    const auto index = read_choice(item, kRoles);
    if (!index) return;
    const SliceRole role = *index == 0 ? SliceRole::critical : SliceRole::monitored;
    if (role == SliceRole::critical && slices.critical.empty()) {
      item.refuse("the contract has no critical slices; list them under slices.critical");
    } else if (slices.dimensions.empty()) {
      item.refuse("the contract declares no dimensions; list them under slices.dimensions");
    } else if (std::count(clause.slices.begin(), clause.slices.end(), role) > 0) {
      item.refuse(fmt::format("the role {} appears twice", to_string(role)));
    }
    clause.slices.push_back(role);
  });
  if (std::holds_alternative<ExactSubject>(clause.subject)) {
    at.refuse("bits are compared on the corpus as a whole, where one row that differs is enough; remove \"slices\"");
  }
  if ((clause.stages & stage_bit(Stage::offline_numeric)) != 0) {
    at.refuse(
        "offline-numeric looks at the corpus as a whole; remove \"slices\", or take offline-numeric out of "
        "the clause's stages");
  }
}

// Only statistical-slice counts the sequences of a slice.
void check_min_sequences(const Cursor& at, const Clause& clause) {
  if (clause.stages == 0 || (clause.stages & stage_bit(Stage::statistical_slice)) != 0) return;
  at.refuse(
      "min_sequences is the least size of a slice, and only statistical-slice looks at slices of the corpus; "
      "remove it, or list statistical-slice under the clause's stages");
}

// Pairs are joined and rescored in shadow-runtime; a canary goes by what was counted there.
void check_signal_stages(const Cursor& at, const Clause& clause) {
  const auto* signal = std::get_if<SignalSubject>(&clause.subject);
  if (signal == nullptr || signal->signal == Metric::telemetry) return;
  const bool canary = (clause.stages & stage_bit(Stage::canary)) != 0;
  if (!canary || (clause.stages & stage_bit(Stage::shadow_runtime)) != 0) return;
  at.refuse(
      fmt::format("a canary mirrors nothing and goes by the {} of shadow-runtime; write stages: "
                  "[shadow-runtime, canary]",
                  to_string(signal->signal)));
}

// A ratio of rates can show harm and never prove its absence (docs/design/statistics.md, "Single failures").
void check_requirement(const Cursor& at, const Clause& clause) {
  const auto* metric = std::get_if<MetricSubject>(&clause.subject);
  const bool rate = metric != nullptr && metric->metric == Metric::error_rate;
  if (rate && clause.require == Requirement::proof && clause.limits.max_ratio && !clause.limits.max) {
    at.refuse("a max_ratio on a rate can only be no_harm; write require: no_harm, or state max as well");
  }
  if (std::holds_alternative<BoundSubject>(clause.subject) && clause.require == Requirement::no_harm) {
    at.refuse("a bound is never violated, so no_harm would always pass; remove it, or write severity: soft");
  }
}

void parse_clause(const Cursor& at, const FamilyRules& rules, Contract& contract) {
  static constexpr std::array<std::string_view, 2> kSeverities{"hard", "soft"};
  static constexpr std::array<std::string_view, 2> kRequirements{"proof", "no_harm"};
  Clause clause;
  clause.family = rules.family;
  clause.position = at.node.position;
  Fields fields(at, fmt::format("a {} clause", to_string(rules.family)));
  if (const auto id = fields.need("id")) {
    clause.id = read_name(*id, "_-").value_or("");
    for (const Clause& other : contract.clauses) {
      if (other.family != clause.family || other.id != clause.id) continue;
      id->refuse(fmt::format("the id \"{}\" appears twice in {}; it first appeared on line {}", clause.id,
                             to_string(clause.family), other.position.line));
    }
  }
  if (const auto severity = fields.find("severity")) {
    clause.severity = static_cast<Severity>(read_choice(*severity, kSeverities).value_or(0));
  }
  const auto require = fields.find("require");
  if (require) {
    if (const auto index = read_choice(*require, kRequirements))
      clause.require = static_cast<Requirement>(*index);
  }
  const auto stages = fields.find("stages"), slices = fields.find("slices");
  const auto min_sequences = fields.find("min_sequences");
  if (min_sequences) {
    if (const auto count = read_count(*min_sequences, 1, kMaxMinSequences))
      clause.min_sequences = static_cast<std::uint32_t>(*count);
  }
  const auto subject = read_subject(fields, rules, contract);
  if (subject) {
    clause.subject = *subject;
    clause.limits = read_limits(fields, clause.subject, contract);
    read_means(fields, clause);
    clause.stages_stated = stages.has_value();
    clause.stages = stages ? read_stages(*stages, *subject) : default_stages(at, rules, *subject);
    check_floor_stages(fields, clause);
    if (stages) check_signal_stages(*stages, clause);
    if (slices) read_slices(*slices, clause, contract.slices);
    if (min_sequences) check_min_sequences(*min_sequences, clause);
    if (require) check_requirement(*require, clause);
  } else {
    for (const std::string_view name : kLimitNames) (void)fields.find(name);
    for (const char* name : {"aggregate", "band", "horizon", "equal", "clip", "over"}) (void)fields.find(name);
  }
  fields.finish();
  // A clause with a fault stays, so that rules which name it are not faults as well.
  contract.clauses.push_back(std::move(clause));
}

}  // namespace

void parse_clauses(Fields& root, Contract& contract) {
  for (const FamilyRules& rules : family_rules()) {
    const auto at = root.find(to_string(rules.family));
    if (!at) continue;
    read_list(*at, kMaxClausesPerFamily, [&](const Cursor& item) { parse_clause(item, rules, contract); });
  }
}

}  // namespace driftgate::schema::detail
