#include <array>
#include <nlohmann/json.hpp>

#include "schema/contract/contract.hpp"
#include "schema/contract/contract_means.hpp"
#include "schema/contract/contract_parse.hpp"

namespace driftgate::schema {
namespace {

using Json = nlohmann::json;

constexpr const char* kDurationPattern =
    "^(?=[0-9])([0-9]{1,12}d)?([0-9]{1,12}h)?([0-9]{1,12}m)?([0-9]{1,12}s)?([0-9]{1,12}ms)?$";

Json object(Json properties, Json required, const char* description) {
  Json out = {{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
  if (!required.empty()) out["required"] = std::move(required);
  if (*description != '\0') out["description"] = description;
  return out;
}

Json list_of(Json items, std::size_t max_items) {
  return {{"type", "array"}, {"items", std::move(items)}, {"maxItems", max_items}};
}

Json one_of(Json names, const char* description = "") {
  Json out = {{"enum", std::move(names)}};
  if (*description != '\0') out["description"] = description;
  return out;
}

Json ref(const char* name) {
  return {{"$ref", std::string("#/definitions/") + name}};
}

Json text(std::size_t max_length) {
  return {{"type", "string"}, {"minLength", 1}, {"maxLength", max_length}};
}

Json name_text(const char* extra) {
  return {{"type", "string"}, {"pattern", std::string("^[A-Za-z0-9][A-Za-z0-9") + extra + "]{0,127}$"}};
}

Json number(double low, double high) {
  return {{"type", "number"}, {"minimum", low}, {"maximum", high}};
}

Json positive() {
  return {{"type", "number"}, {"exclusiveMinimum", 0}};
}

Json count(std::uint64_t low, std::uint64_t high) {
  return {{"type", "integer"}, {"minimum", low}, {"maximum", high}};
}

Json metric_names(bool signals) {
  Json names = Json::array();
  for (const MetricInfo& entry : metric_registry()) {
    const bool signal = entry.group == MetricGroup::signal;
    if (signal == signals) names.push_back(entry.name);
  }
  return names;
}

Json aggregate_names() {
  Json names = Json::array();
  for (std::size_t i = 0; i < kAggregateCount; ++i) names.push_back(to_string(static_cast<Aggregate>(i)));
  return names;
}

Json band_names() {
  Json names = Json::array();
  for (std::size_t i = 0; i < kBandCount; ++i) names.push_back(to_string(static_cast<Band>(i)));
  return names;
}

Json stage_names() {
  Json names = Json::array();
  for (std::size_t i = 0; i < kStageCount; ++i) names.push_back(to_string(static_cast<Stage>(i)));
  return names;
}

Json action_names() {
  Json names = Json::array();
  for (unsigned i = 0; i <= static_cast<unsigned>(Action::block); ++i) {
    names.emplace_back(to_string(static_cast<Action>(i)));
  }
  return names;
}

// "tv: total variation …" for each metric, as editors show it.
std::string metric_help() {
  std::string help;
  for (const MetricInfo& entry : metric_registry()) {
    if (entry.group == MetricGroup::signal) continue;
    help += std::string(entry.name) + ": " + std::string(entry.definition);
    if (!entry.unit.empty()) help += " [" + std::string(entry.unit) + "]";
    help += "\n";
  }
  return help;
}

// What this metric allows: its aggregates, its range, its kinds of limit.
Json metric_rule(const MetricInfo& entry) {
  Json aggregates = Json::array();
  for (std::size_t i = 0; i < kAggregateCount; ++i) {
    const auto aggregate = static_cast<Aggregate>(i);
    if ((entry.aggregates & aggregate_bit(aggregate)) != 0) aggregates.push_back(to_string(aggregate));
  }
  Json range = Json::object();
  if (entry.low > -HUGE_VAL) range["minimum"] = entry.low;
  if (entry.high < HUGE_VAL) range["maximum"] = entry.high;
  Json properties = {{"max", range}, {"min", range}};
  Json then = Json::object();
  if (aggregates.empty()) {
    properties["aggregate"] = false;
  } else {
    properties["aggregate"] = one_of(std::move(aggregates));
    const bool by_default = (entry.aggregates & aggregate_bit(Aggregate::sequence_mean)) != 0;
    if (!by_default) then["required"] = {"aggregate"};
  }
  if (entry.group == MetricGroup::traffic) {
    properties["min"] = false;
  } else {
    properties["max_ratio"] = false;
  }
  if (!detail::why_no_delta({entry.metric, Aggregate::mean}).empty()) properties["max_delta"] = false;
  const bool from_above = entry.metric == Metric::ece_drift || entry.group == MetricGroup::batch ||
                          entry.metric == Metric::divergence_rate;
  if (from_above) properties["min"] = false;
  if (entry.group == MetricGroup::greedy && !from_above) properties["max"] = false;
  if (!is_distance(entry.metric)) properties["floor_multiple"] = false;
  if (!why_no_clip({entry.metric, Aggregate::sequence_mean}).empty()) properties["clip"] = false;
  const bool captured = entry.group == MetricGroup::row || entry.group == MetricGroup::realised;
  if (!captured || (entry.aggregates & aggregate_bit(Aggregate::p97)) == 0) properties["over"] = false;
  if (entry.metric == Metric::band_retention) {
    properties["max"] = false;
    then["required"] = {"band", "min"};
  } else {
    properties["band"] = false;
  }
  then["properties"] = std::move(properties);
  return {{"if", {{"properties", {{"metric", {{"const", entry.name}}}}}, {"required", {"metric"}}}},
          {"then", std::move(then)}};
}

Json limit_properties() {
  Json out = {{"max", {{"type", "number"}}},
              {"min", {{"type", "number"}}},
              {"max_ratio", number(1, 1'000)},
              {"non_inferiority_margin", {{"type", "number"}, {"minimum", 0}, {"exclusiveMaximum", 1}}},
              {"min_count", count(1, detail::kMaxCount)},
              {"min_coverage", {{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 1}}},
              {"max_staleness", ref("duration")},
              {"max_delta", {{"type", "number"}, {"minimum", 0}}},
              {"floor_multiple", {{"type", "number"}, {"minimum", 1}}},
              {"floor_cap", {{"type", "number"}}}};
  return out;
}

Json clause(Json subjects, const Json& limits) {
  Json properties = {{"id", name_text("_-")},
                     {"severity", one_of({"hard", "soft"}, "hard when it is not stated")},
                     {"require", one_of({"proof", "no_harm"}, "proof, except no_harm for latency")},
                     {"stages", list_of(one_of(stage_names()), kStageCount)}};
  Json choices = Json::array();
  for (const auto& item : subjects.items()) choices.push_back({{"required", {item.key()}}});
  properties.update(subjects);
  for (const auto& item : limits)
    properties[item.get<std::string>()] = limit_properties()[item.get<std::string>()];
  Json out = object(std::move(properties), {"id"}, "");
  out["oneOf"] = std::move(choices);
  return out;
}

Json metric_clause(Json subjects, const Json& limits, bool slices) {
  subjects["metric"] = one_of(metric_names(false), metric_help().c_str());
  Json out = clause(std::move(subjects), limits);
  out["properties"]["aggregate"] =
      one_of(aggregate_names(), "sequence_mean where it is not stated and makes sense");
  out["properties"]["clip"] = {
      {"type", "number"}, {"description", "of a sequence_mean: each sequence's mean counts as at most this"}};
  out["properties"]["over"] =
      one_of({"average_sequence", "rows", "sequences"},
             "what a quantile limits the share of: rows in an average sequence, each sequence counting once "
             "(where it is "
             "not stated), all rows (with assumptions.max_tokens), or sequences, by their means");
  if (out["properties"].contains("floor_multiple")) {
    out["dependencies"] = {{"floor_multiple", Json::array({"max", "floor_cap"})},
                           {"floor_cap", Json::array({"floor_multiple"})}};
  }
  out["properties"]["band"] = one_of(band_names(), "which of the six values of band_retention");
  out["properties"]["min_sequences"] = count(1, detail::kMaxMinSequences);
  if (out["properties"].contains("tensor")) {
    out["properties"]["equal"] = {{"const", true}};
    out["dependencies"]["tensor"] = Json::array({"equal"});
    out["dependencies"]["equal"] = Json::array({"tensor"});
  }
  if (slices) out["properties"]["slices"] = list_of(one_of({"critical", "monitored"}), 2);
  Json rules = Json::array();
  for (const MetricInfo& entry : metric_registry()) {
    if (entry.group != MetricGroup::signal) rules.push_back(metric_rule(entry));
  }
  out["allOf"] = std::move(rules);
  return out;
}

Json tensors() {
  return one_of({"logits", "logprobs", "tokens"}, "what the two kernels must hold bit by bit (equal: true)");
}

Json numerical_clause() {
  const Json bounds = one_of({"tv", "reward", "sequence", "policy_gradient"}, "a bound of the bound chain");
  Json out = metric_clause({{"bound", bounds}, {"tensor", tensors()}},
                           {"max", "min", "max_delta", "min_count", "floor_multiple", "floor_cap"}, false);
  out["properties"]["horizon"] = one_of({"token", "sequence"});
  return out;
}

Json families() {
  const auto family = [](Json items) { return list_of(std::move(items), detail::kMaxClausesPerFamily); };
  Json statistical = metric_clause(
      {{"outcome", one_of({"correct"})}, {"tensor", tensors()}},
      {"max", "min", "max_delta", "min_count", "non_inferiority_margin", "floor_multiple", "floor_cap"},
      true);
  Json runtime = metric_clause(Json::object(),
                               {"max", "min", "max_ratio", "max_delta", "floor_multiple", "floor_cap"}, true);
  Json signals =
      clause({{"signal", one_of(metric_names(true))}}, {"min_count", "min_coverage", "max_staleness"});
  return {{"numerical", family(numerical_clause())},
          {"statistical", family(std::move(statistical))},
          {"runtime", family(std::move(runtime))},
          {"observability", family(std::move(signals))}};
}

Json assumptions() {
  const Json reward =
      object({{"min", {{"type", "number"}}}, {"max", {{"type", "number"}}}}, {"min", "max"}, "");
  const Json policy =
      object({{"advantage_max", positive()},
              {"score_norm_max", positive()},
              {"ppo_clip", {{"type", "number"}, {"exclusiveMinimum", 0}, {"exclusiveMaximum", 1}}},
              {"is_clip", {{"type", "number"}, {"minimum", 0}}}},
             {"advantage_max", "score_norm_max"}, "");
  return object({{"reward", reward},
                 {"policy", policy},
                 {"max_tokens", count(1, 100'000'000)},
                 {"swings", one_of({"own", "shared"},
                                   "in a canary: whether each engine's failure rate and latency swing by "
                                   "themselves (own, when it is not stated) or all with the same cause")}},
                Json::array(), "what is taken for granted: by the bound chain, and in a canary");
}

Json slices() {
  return object(
      {{"dimensions", list_of(name_text("_.-"), detail::kMaxDimensions)},
       {"min_sequences", count(1, detail::kMaxMinSequences)},
       {"critical", list_of(ref("where"), detail::kMaxCriticalSlices)},
       {"discover", object({{"depth", count(1, 3)},
                            {"action", one_of({"report", "block"}, "report when it is not stated")},
                            {"max_ratio", number(1, 1'000)}},
                           Json::array(), "search combinations of attributes for the worst slices")},
       {"prompt_length_bounds", list_of(count(1, detail::kMaxCount), 64)}},
      Json::array(), "which parts of the corpus are looked at on their own");
}

Json stages() {
  const Json shadow = object({{"mirror_share", number(0.0001, 1)},
                              {"min_duration", ref("duration")},
                              {"max_duration", ref("duration")},
                              {"mirror_token_budget", count(1, 1'000'000'000'000)}},
                             Json::array(), "");
  const Json step = object({{"share", number(0.0001, 1)},
                            {"approval", {{"type", "boolean"}}},
                            {"approvals", count(1, detail::kMaxApprovals)}},
                           {"share"}, "");
  const Json telemetry =
      object({{"freeze_after", ref("duration")}, {"revert_after", ref("duration")}}, Json::array(), "");
  Json steps = list_of(step, detail::kMaxCanarySteps);
  steps["minItems"] = 1;
  const Json canary = object({{"steps", std::move(steps)},
                              {"soak", ref("duration")},
                              {"bake", ref("duration")},
                              {"burst", ref("duration")},
                              {"holdback", number(0, 0.5)},
                              {"min_keys", count(1, detail::kMaxCount)},
                              {"max_exposure", count(1, detail::kMaxCount)},
                              {"max_duration", ref("duration")},
                              {"approval_deadline", ref("duration")},
                              {"approval_valid_for", ref("duration")},
                              {"telemetry", telemetry}},
                             {"steps"}, "the ramp: shares increase and end at 1.0");
  return object({{"shadow-runtime", shadow}, {"canary", canary}}, Json::array(), "");
}

Json guard() {
  const Json action =
      one_of({"notify", "rollback"}, "what a difference orders; notify when it is not stated");
  const Json probes = object({{"every", ref("duration")},
                              {"prompts", count(0, detail::kMaxProbes)},
                              {"budget_tokens", count(1, 1'000'000'000'000)},
                              {"action", action}},
                             Json::array(), "prompts whose answers should never change; prompts: 0 for none");
  const Json identity = object({{"every", ref("duration")}, {"action", action}}, Json::array(),
                               "how often the engine is asked what it is");
  const Json rescoring =
      object({{"share", number(0.0001, 1)}, {"budget_tokens", count(1, 1'000'000'000'000)}}, Json::array(),
             "live answers that an engine of the training kernel scores again; absent: none");
  return object({{"mean_time_between_false_alarms", ref("duration")},
                 {"probes", probes},
                 {"identity", identity},
                 {"rescoring", rescoring}},
                Json::array(), "what is watched once a promotion has succeeded");
}

Json escalation() {
  const Json action = one_of(action_names());
  Json places = stage_names();
  places.emplace_back("guard");
  const Json rule = object({{"match", text(200)},
                            {"slice", {{"anyOf", Json::array({one_of({"any"}), ref("where")})}}},
                            {"stage", one_of(std::move(places))},
                            {"severity", one_of({"hard", "soft"})},
                            {"action", action}},
                           {"match", "action"}, "match is family.id or family.*");
  const Json recovery =
      object({{"clean_windows", count(1, 1'000'000)}, {"min_dwell", ref("duration")}}, Json::array(), "");
  return object({{"rules", list_of(rule, detail::kMaxRules)},
                 {"defaults", object({{"hard", action}, {"soft", action}}, Json::array(), "")},
                 {"recovery", recovery}},
                Json::array(), "what a violation does");
}

Json header() {
  const Json level = {{"type", "number"}, {"exclusiveMinimum", 0}, {"exclusiveMaximum", 0.5}};
  const Json metadata =
      object({{"name", name_text("._-")}, {"description", text(4'000)}, {"owners", list_of(text(200), 64)}},
             {"name"}, "");
  return {{"apiVersion", {{"const", "driftgate/v1"}}},
          {"kind", {{"const", "KernelContract"}}},
          {"metadata", metadata},
          {"kernels", object({{"train", ref("kernel")}, {"inf", ref("kernel")}, {"fallback", ref("kernel")}},
                             {"train", "inf"}, "names of registered kernels")},
          {"measurement", object({{"top_k", count(1, 1'000)}}, Json::array(), "")},
          {"confidence",
           object({{"alpha", level},
                   {"alpha_harm", level},
                   {"alpha_advance", level},
                   {"means", one_of({"exact", "approximate"},
                                    "how means of fixed data are decided; exact when it is not stated")}},
                  Json::array(), "")}};
}

}  // namespace

std::string contract_json_schema() {
  Json properties = header();
  properties.update(families());
  properties["assumptions"] = assumptions();
  properties["slices"] = slices();
  properties["stages"] = stages();
  properties["guard"] = guard();
  properties["escalation"] = escalation();
  Json schema = object(
      std::move(properties), {"apiVersion", "kind", "metadata", "kernels"},
      "What divergence between a training and an inference kernel is acceptable, and what happens beyond it");
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["$id"] = "/schemas/contract.json";
  schema["title"] = "driftgate kernel contract";
  schema["definitions"] = {
      {"duration",
       {{"type", "string"}, {"pattern", kDurationPattern}, {"description", "500ms, 30s, 5m, 1h30m"}}},
      {"kernel", object({{"ref", name_text("._:/@+-")}}, {"ref"}, "")},
      {"where",
       {{"type", "object"},
        {"minProperties", 1},
        {"additionalProperties", {{"type", "string"}, {"minLength", 1}}}}}};
  return schema.dump(2) + "\n";
}

}  // namespace driftgate::schema
