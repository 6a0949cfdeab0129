#include "daemon/pipeline/requests/data_plane.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "daemon/net/url.hpp"
#include "daemon/store/registry/engine_access.hpp"
#include "schema/metrics.hpp"

namespace driftgate::pipeline {
namespace {

using schema::Metric;
using schema::Stage;

schema::Result<void> lacks(const route::Capabilities& can, std::string_view what, std::string_view advice) {
  return schema::fail(schema::ErrorCode::unsupported,
                      fmt::format("the data plane ({}) cannot do this: {}; {}", can.plane, what, advice),
                      "/contract");
}

/// What every promotion needs: shares that grow user by user, copies for shadow-runtime, and an answer to
/// what is in force.
schema::Result<void> check_routes(const route::Capabilities& can) {
  constexpr std::string_view kAdvice = "every promotion needs it: choose another data_plane in the settings";
  if (!can.basis_points) return lacks(can, "traffic shares in basis points", kAdvice);
  if (!can.sticky_monotone) return lacks(can, "keep each user on one version while a share grows", kAdvice);
  if (!can.atomic) return lacks(can, "change a route at once", kAdvice);
  if (!can.read_back) return lacks(can, "say which route is in force", kAdvice);
  if (!can.mirror_response)
    return lacks(can, "keep both answers when mirroring requests to the candidate", kAdvice);
  if (!can.mirror_isolated) return lacks(can, "mirror without users waiting for the candidate", kAdvice);
  return {};
}

bool routes_slices(const schema::Escalation& policy) {
  return policy.hard_default == schema::Action::route_slice ||
         policy.soft_default == schema::Action::route_slice ||
         std::ranges::any_of(policy.rules,
                             [](const auto& rule) { return rule.action == schema::Action::route_slice; });
}

/// A clause that the canary decides on requests as the data plane sees them.
schema::Result<void> check_clause(const route::Capabilities& can, const schema::Clause& clause) {
  const auto* subject = std::get_if<schema::MetricSubject>(&clause.subject);
  if (subject == nullptr || (clause.stages & schema::stage_bit(Stage::canary)) == 0) return {};
  const auto metric = subject->metric;
  const bool of_tokens = metric == Metric::ttft_ms || metric == Metric::inter_token_ms;
  const bool lacking =
      (of_tokens && !can.token_times) || (metric == Metric::total_ms && !can.per_arm_latency);
  if (!lacking) return {};
  return lacks(can,
               fmt::format("measure {} of users' requests, which {} needs in the canary",
                           schema::to_string(metric), clause.address()),
               "let the clause be decided in shadow-runtime alone (stages: [shadow-runtime])");
}

}  // namespace

schema::Result<void> check_engine_access(const route::Capabilities& can, store::Reader& reader,
                                         const store::EngineRow& engine, const char* where) {
  if (can.engine_access) return {};
  const auto url = TRY(net::parse_url(engine.base_url));
  const auto access = TRY(store::access_at(reader, engine.base_url));
  std::string_view what;
  if (!access.key_file.empty()) what = "it asks for a key";
  if (url.target != "/") what = "it is under a path";
  if (url.tls) what = "it is reached over https";
  if (what.empty()) return {};
  return schema::fail(schema::ErrorCode::unsupported,
                      fmt::format("the data plane ({}) cannot send users' requests to engine {}: {}; set "
                                  "data_plane to router, or register the engine at a local http:// address",
                                  can.plane, engine.name, what),
                      where);
}

schema::Result<void> check_data_plane(const route::Capabilities& can, const schema::Contract& contract) {
  TRY(check_routes(can));
  if (!can.slices && routes_slices(contract.escalation))
    return lacks(can, "routes for slices",
                 "use another action than route_slice in the contract's escalation");
  if (!can.prompt_length && !contract.slices.prompt_length_bounds.empty())
    return lacks(can, "measure the length of prompts, which slices.prompt_length_bounds needs in the canary",
                 "leave the bounds out of the contract");
  if (!can.watches_incumbent && contract.guard)
    return lacks(can, "count requests after a promotion, which the contract's guard goes by",
                 "raise gateway.watched_share_bp in the settings, or leave the guard out of the contract");
  for (const auto& clause : contract.clauses) TRY(check_clause(can, clause));
  return {};
}

}  // namespace driftgate::pipeline
