#include "daemon/pipeline/requests/fallback.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "daemon/pipeline/requests/request.hpp"

namespace driftgate::pipeline {
namespace {

using schema::Action;
using schema::ErrorCode;

constexpr std::int64_t kMaxEngines = 10'000;
constexpr const char* kWhere = "/fallback_engine";

bool is_fallback(Action action) {
  return action == Action::route_slice || action == Action::fallback;
}

schema::Result<std::optional<store::EngineRow>> check_named(store::Reader& reader,
                                                            const schema::Contract& contract,
                                                            const std::string& named,
                                                            const store::EngineRow& candidate) {
  const auto refuse = [&](std::string why) {
    return schema::fail(ErrorCode::invalid_argument, std::move(why), kWhere);
  };
  if (contract.fallback_kernel.empty())
    return refuse(fmt::format("contract {} names no kernels.fallback, so no engine can be its fallback",
                              contract.name));
  auto engine = TRY(store::find_engine(reader, named));
  if (!engine) return unregistered("engine", named, kWhere);
  if (engine->kernel != contract.fallback_kernel)
    return refuse(fmt::format("engine {} serves the kernel {}; the contract's fallback is {}", named,
                              engine->kernel, contract.fallback_kernel));
  if (engine->checkpoint != candidate.checkpoint)
    return refuse(
        fmt::format("engine {} serves checkpoint {}, the candidate {}: the fallback must be the same "
                    "model at higher precision",
                    named, engine->checkpoint, candidate.checkpoint));
  return engine;
}

}  // namespace

bool may_use_fallback(const schema::Escalation& policy) {
  return is_fallback(policy.hard_default) || is_fallback(policy.soft_default) ||
         std::ranges::any_of(policy.rules, [](const auto& rule) { return is_fallback(rule.action); });
}

schema::Result<std::optional<store::EngineRow>> resolve_fallback(store::Reader& reader,
                                                                 const schema::Contract& contract,
                                                                 const std::string& named,
                                                                 const store::EngineRow& candidate) {
  if (!named.empty()) return check_named(reader, contract, named, candidate);
  if (contract.fallback_kernel.empty() || !may_use_fallback(contract.escalation)) return std::nullopt;
  auto engines = TRY(store::list_engines(reader, "", kMaxEngines));
  std::erase_if(engines, [&](const store::EngineRow& engine) {
    return engine.kernel != contract.fallback_kernel || engine.checkpoint != candidate.checkpoint ||
           engine.name == candidate.name;
  });
  if (engines.size() == 1) return engines.front();
  if (engines.empty()) {
    return schema::fail(
        ErrorCode::conflict,
        fmt::format(
            "contract {} may send traffic to the kernel {}, and no registered engine serves checkpoint {} "
            "with it: start one, then `driftgate engine register NAME --engine-url URL --kernel {} "
            "--checkpoint …`",
            contract.name, contract.fallback_kernel, candidate.checkpoint, contract.fallback_kernel),
        kWhere);
  }
  return schema::fail(ErrorCode::invalid_argument,
                      fmt::format("the engines {} all serve the contract's fallback kernel {}: name one as "
                                  "fallback_engine",
                                  fmt::join(engines | std::views::transform(&store::EngineRow::name), ", "),
                                  contract.fallback_kernel),
                      kWhere);
}

Capacity judge_capacity(const CapacityFacts& facts) {
  Capacity capacity;
  capacity.body = {{"engine", facts.engine},
                   {"healthy", !facts.engine.empty() && !facts.unhealthy},
                   {"requests_per_second", schema::EntryValue::measured(facts.requests_per_second)},
                   {"max_requests_per_second", facts.max_requests_per_second}};
  if (facts.engine.empty()) {
    capacity.text = "the promotion has no fallback engine";
  } else if (facts.unhealthy) {
    capacity.text =
        fmt::format("the fallback engine {} is not healthy: {}", facts.engine, facts.unhealthy->describe());
  } else if (facts.max_requests_per_second > 0 &&
             facts.requests_per_second > static_cast<double>(facts.max_requests_per_second)) {
    capacity.text =
        fmt::format("the fallback engine {} is registered for {} requests/s and {:.4g} would go to it",
                    facts.engine, facts.max_requests_per_second, facts.requests_per_second);
  } else {
    capacity.enough = true;
    capacity.text =
        facts.max_requests_per_second > 0
            ? fmt::format(
                  "the fallback engine {} is healthy and registered for {} requests/s, {:.4g} go to it",
                  facts.engine, facts.max_requests_per_second, facts.requests_per_second)
            : fmt::format(
                  "the fallback engine {} is healthy; what it can serve was not registered, {:.4g} "
                  "requests/s go to it",
                  facts.engine, facts.requests_per_second);
  }
  capacity.body["text"] = capacity.text;
  return capacity;
}

}  // namespace driftgate::pipeline
