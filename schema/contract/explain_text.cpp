#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "schema/contract/explain.hpp"
#include "schema/json.hpp"

namespace driftgate::schema {

std::string needs_text(const Demand& demand) {
  if (!demand.needs.n) return "can never pass: " + demand.needs.why;
  if (demand.requirement == Requirement::no_harm) return "passes unless it is violated";
  if (demand.needs.counted) return "is counted, not tested";
  return fmt::format("needs at least {} {} at α = {:.4g} ({})", *demand.needs.n, demand.needs.unit,
                     demand.needs.alpha, demand.needs.why);
}

namespace {

/// Which run the sizes are of.
std::string run_text(std::uint32_t k) {
  if (k > 1) {
    return fmt::format(
        "Sizes are those of run {} of one checkpoint and kernel under this contract, on new data.\n", k);
  }
  return "Sizes are those of a first run of a checkpoint and kernel under this contract. A run on new data "
         "after it spends less α and needs more: --run 2.\n";
}

using Json = nlohmann::json;

void put(Json& out, const char* name, const std::optional<double>& value) {
  if (value) out[name] = *value;
}

Json demand_json(const Demand& demand) {
  Json out = {{"clause", demand.clause},
              {"severity", to_string(demand.severity)},
              {"require", demand.requirement == Requirement::proof ? "proof" : "no_harm"},
              {"demand", demand.words},
              {"unit", demand.needs.unit},
              {"alpha", demand.needs.alpha},
              {"method", demand.needs.why}};
  out["least_n"] = demand.needs.n ? Json(*demand.needs.n) : Json(nullptr);
  return out;
}

}  // namespace

std::string to_text(const Explanation& explanation) {
  std::string text;
  text += fmt::format("Contract {}: may {} serve what {} trained?\n{}\n", explanation.name,
                      explanation.inf_kernel, explanation.train_kernel, explanation.digest);
  text += run_text(explanation.run);
  for (const StageDemands& stage : explanation.stages) {
    text += fmt::format("\n{}\n", to_string(stage.stage));
    for (const std::string& sentence : stage.plan) text += fmt::format("  {}\n", sentence);
    if (stage.demands.empty()) text += "  nothing demanded: it measures, records and passes\n";
    for (const Demand& demand : stage.demands) {
      text += fmt::format("  - {}{}: {}\n      {}\n", demand.clause,
                          demand.severity == Severity::soft ? " (soft, does not block)" : "", demand.words,
                          needs_text(demand));
    }
  }
  const auto list = [&](std::string_view title, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    text += fmt::format("\n{}\n", title);
    for (const std::string& line : lines) text += fmt::format("  - {}\n", line);
  };
  list("What follows from the bound chain", explanation.bound_chain);
  list("What happens on a violation", explanation.escalation);
  list("What the guard does after a promotion", explanation.guard);
  return text;
}

std::string to_json(const Explanation& explanation) {
  Json stages = Json::array();
  for (const StageDemands& stage : explanation.stages) {
    Json demands = Json::array();
    for (const Demand& demand : stage.demands) demands.push_back(demand_json(demand));
    stages.push_back(
        {{"stage", to_string(stage.stage)}, {"plan", stage.plan}, {"demands", std::move(demands)}});
  }
  Json bounds = {{"sentences", explanation.bound_chain}};
  put(bounds, "largest_span", explanation.largest_span);
  put(bounds, "clip_room", explanation.clip_room);
  put(bounds, "clip_room_left", explanation.clip_room_left);
  put(bounds, "allowed_span", explanation.allowed_span);
  const Json out = {{"name", explanation.name},
                    {"digest", explanation.digest},
                    {"train", explanation.train_kernel},
                    {"inf", explanation.inf_kernel},
                    {"run", explanation.run},
                    {"stages", std::move(stages)},
                    {"bounds", std::move(bounds)},
                    {"escalation", explanation.escalation},
                    {"guard", explanation.guard}};
  return canonical_json(out);
}

}  // namespace driftgate::schema
