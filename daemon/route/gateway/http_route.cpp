#include "daemon/route/gateway/http_route.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "daemon/base/ascii.hpp"
#include "daemon/base/json_members.hpp"
#include "daemon/route/table/decide.hpp"
#include "daemon/route/table/slice.hpp"
#include "schema/failf.hpp"
#include "schema/names.hpp"

namespace driftgate::route::gateway {
namespace {

using nlohmann::json;

constexpr const char* kApiVersion = "gateway.networking.k8s.io/v1";
constexpr const char* kGatewayGroup = "gateway.networking.k8s.io";
constexpr const char* kRouteAnnotation = "driftgate/route";
constexpr const char* kModelAnnotation = "driftgate/model";
constexpr std::size_t kMaxRules = 16;  // of an HTTPRoute
constexpr std::size_t kMaxReadableBytes = 40;
/// What may go past the router; other paths are for it alone.
constexpr std::array kCompletionPaths{"/v1/completions", "/v1/chat/completions"};

json header_match(const char* name, const std::string& value) {
  return {{"type", "Exact"}, {"name", name}, {"value", value}};
}

/// Matches of a rule: requests for completions of the model, with that slice where there is one.
json matches_of(const std::string& model, const std::string& slice = {}) {
  auto matches = json::array();
  for (const char* path : kCompletionPaths) {
    auto headers = json::array({header_match("driftgate-model", model)});
    if (!slice.empty()) headers.push_back(header_match("driftgate-slice", slice));
    matches.push_back({{"path", {{"type", "Exact"}, {"value", path}}}, {"headers", std::move(headers)}});
  }
  return matches;
}

json backend(const Service& service, std::uint32_t weight) {
  return {{"group", ""},          {"kind", "Service"}, {"name", service.name}, {"namespace", service.space},
          {"port", service.port}, {"weight", weight}};
}

/// The watched share goes to the router and the rest to `direct`; without one the router gets everything.
json backends(const Target& target, const std::optional<Service>& direct) {
  auto list = json::array();
  if (!direct || target.watched_bp == kFullShareBp) {
    list.push_back(backend(target.router, kFullShareBp));
    return list;
  }
  if (target.watched_bp > 0) list.push_back(backend(target.router, target.watched_bp));
  list.push_back(backend(*direct, kFullShareBp - target.watched_bp));
  return list;
}

json rule(json matches, json backend_refs) {
  return {{"matches", std::move(matches)}, {"backendRefs", std::move(backend_refs)}};
}

/// The Service of an engine that a Gateway may send requests to. One that asks for a key is asked by the
/// router alone, which shows it.
std::optional<Service> open_service(const Arm& arm, const AccessByUrl& access) {
  return access.contains(arm.url) ? std::nullopt : service_of(arm.url);
}

/// Rules for slices that go to the fallback engine. A header that says exactly what a slice does is placed as
/// the router would place it; one that says it in other words or says more is the router's to read.
void append_slice_rules(const Target& target, const ModelRoute& route, const AccessByUrl& access,
                        json& rules) {
  const auto fallback = route.fallback ? open_service(*route.fallback, access) : std::nullopt;
  if (!fallback || !route.pins.empty()) return;
  for (const auto& weight : route.slices) {
    if (rules.size() + 1 >= kMaxRules) return;  // the last one is for the rest
    const SliceAttributes& slice = weight.where;
    if (decide(route, "", slice).served != Served::fallback) continue;
    auto matches = matches_of(route.model, canonical_slice(slice));
    const bool there =
        std::any_of(rules.begin(), rules.end(), [&](const json& one) { return one["matches"] == matches; });
    if (!there) rules.push_back(rule(std::move(matches), backends(target, fallback)));
  }
}

/// Where the rest of the model's requests may go without passing the router.
std::optional<Service> direct_service(const ModelRoute& route, const AccessByUrl& access) {
  if (route.candidate) return std::nullopt;
  if (route.all_to_fallback && route.fallback) return open_service(*route.fallback, access);
  if (!route.slices.empty()) return std::nullopt;  // a slice may stand in the body, which no Gateway reads
  return open_service(route.incumbent, access);
}

json rules_of(const Target& target, const ModelRoute& route, const AccessByUrl& access) {
  auto rules = json::array();
  if (!route.candidate && !route.all_to_fallback) append_slice_rules(target, route, access, rules);
  rules.push_back(rule(matches_of(route.model), backends(target, direct_service(route, access))));
  return rules;
}

json parents_of(const Target& target) {
  auto parents = json::array();
  for (const auto& parent : target.parents) {
    json one = {
        {"group", kGatewayGroup}, {"kind", "Gateway"}, {"namespace", parent.space}, {"name", parent.name}};
    if (!parent.listener.empty()) one["sectionName"] = parent.listener;
    parents.push_back(std::move(one));
  }
  return parents;
}

/// The condition of that type, or null.
const json* condition(const json& status, std::string_view type) {
  const auto* list = base::member(status, "conditions");
  if (list == nullptr || !list->is_array()) return nullptr;
  const auto found = std::find_if(list->begin(), list->end(),
                                  [&](const json& one) { return base::text_at(one, "type") == type; });
  return found == list->end() ? nullptr : &*found;
}

bool is_about(const json& status, const Parent& parent, const std::string& space) {
  const auto reference = base::object_at(status, "parentRef");
  return base::text_at(reference, "name") == parent.name &&
         base::maybe_text_at(reference, "namespace").value_or(space) == parent.space &&
         base::text_at(reference, "sectionName") == parent.listener;
}

std::unexpected<schema::Error> not_yet(const Parent& parent, std::string_view what) {
  return schema::failf(schema::ErrorCode::deadline_exceeded,
                       "the Gateway {}/{} {}; is its controller running, and does it know HTTPRoutes?",
                       parent.space, parent.name, what);
}

std::unexpected<schema::Error> refused(const Parent& parent, const json& condition_said) {
  return schema::failf(schema::ErrorCode::conflict,
                       "the Gateway {}/{} does not route as it is told: {} is {} ({}): {:.300}", parent.space,
                       parent.name, base::text_at(condition_said, "type"),
                       base::text_at(condition_said, "status"), base::text_at(condition_said, "reason"),
                       base::text_at(condition_said, "message"));
}

/// What one controller says of one Gateway.
schema::Result<void> check_status(const json& status, const Parent& parent, std::int64_t generation) {
  for (const char* type : {"Accepted", "ResolvedRefs"}) {
    const auto* said = condition(status, type);
    if (said == nullptr || base::integer_at(*said, "observedGeneration", -1) != generation)
      return not_yet(parent, fmt::format("has not said {} of this generation yet", type));
    if (base::text_at(*said, "status") != "True") return refused(parent, *said);
  }
  // Set only by controllers that left a rule out.
  const auto* partly = condition(status, "PartiallyInvalid");
  const bool left_out = partly != nullptr && base::text_at(*partly, "status") == "True" &&
                        base::integer_at(*partly, "observedGeneration", -1) == generation;
  if (left_out) return refused(parent, *partly);
  return {};
}

}  // namespace

Fence fence_of(const ModelRoute& route) {
  return {route.epoch, route.revision};
}

std::string to_string(const Fence& fence) {
  return fmt::format("{}.{}", fence.epoch, fence.revision);
}

std::string object_name(const Target& target, const std::string& model) {
  std::string readable;
  for (const char byte : model.substr(0, kMaxReadableBytes)) {
    const char small = base::lower(byte);
    readable += base::is_lower(small) || base::is_digit(small) ? small : '-';
  }
  return fmt::format("{}-{}-{:016x}", target.name, readable, XXH64(model.data(), model.size(), 0));
}

schema::Result<void> check_route(const ModelRoute& route) {
  const auto named = schema::check_name(route.model, "the name of a model that a Gateway routes");
  if (!named) return schema::fail(schema::ErrorCode::unsupported, named.error().message);
  return {};
}

json http_route(const Target& target, const ModelRoute& route, const AccessByUrl& access) {
  json spec = {{"parentRefs", parents_of(target)}, {"rules", rules_of(target, route, access)}};
  if (!target.hostnames.empty()) spec["hostnames"] = target.hostnames;
  return {
      {"apiVersion", kApiVersion},
      {"kind", "HTTPRoute"},
      {"metadata",
       {{"name", object_name(target, route.model)},
        {"namespace", target.space},
        {"labels", {{kInstallationLabel, target.name}}},
        {"annotations", {{kRouteAnnotation, to_string(fence_of(route))}, {kModelAnnotation, route.model}}}}},
      {"spec", std::move(spec)}};
}

schema::Result<Fence> fence_in(const json& object) {
  const auto annotations = base::object_at(base::object_at(object, "metadata"), "annotations");
  const auto text = base::maybe_text_at(annotations, kRouteAnnotation);
  Fence fence;
  if (!text) return fence;
  const char* const end = text->data() + text->size();
  const auto epoch = std::from_chars(text->data(), end, fence.epoch);
  const bool dot = epoch.ec == std::errc() && epoch.ptr != end && *epoch.ptr == '.';
  const auto revision = dot ? std::from_chars(epoch.ptr + 1, end, fence.revision) : epoch;
  if (dot && revision.ec == std::errc() && revision.ptr == end) return fence;
  return schema::failf(
      schema::ErrorCode::corrupt,
      "the annotation {} of HTTPRoute {} is '{:.64}', not EPOCH.REVISION: somebody wrote it; "
      "delete the HTTPRoute, and it is made anew",
      kRouteAnnotation, base::text_at(base::object_at(object, "metadata"), "name"), *text);
}

bool covers(const json& held, const json& wanted) {
  if (wanted.is_object()) {
    if (!held.is_object()) return false;
    for (const auto& [name, value] : wanted.items()) {
      const auto found = held.find(name);
      if (found == held.end() || !covers(*found, value)) return false;
    }
    return true;
  }
  if (!wanted.is_array()) return held == wanted;
  if (!held.is_array() || held.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!covers(held[i], wanted[i])) return false;
  }
  return true;
}

schema::Result<void> check_accepted(const json& object, const Target& target) {
  const auto generation = base::integer_at(base::object_at(object, "metadata"), "generation", 0);
  const auto status = base::object_at(object, "status");
  const auto* parents = base::member(status, "parents");
  if (parents == nullptr || !parents->is_array())
    return not_yet(target.parents.front(), "has not said whether it takes the HTTPRoute");
  for (const auto& parent : target.parents) {
    bool found = false;
    for (const auto& one : *parents) {
      if (!is_about(one, parent, target.space)) continue;
      TRY(check_status(one, parent, generation));
      found = true;
    }
    if (!found) return not_yet(parent, "has not said whether it takes the HTTPRoute");
  }
  return {};
}

}  // namespace driftgate::route::gateway
