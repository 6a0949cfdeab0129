#include "daemon/route/table/route_json.hpp"

#include "daemon/route/http/json_reader.hpp"

namespace driftgate::route {
namespace {

constexpr int kMaxDepth = 32;

nlohmann::json arm_json(const Arm& arm) {
  return {{"version", arm.version}, {"kernel", arm.kernel}, {"url", arm.url}};
}

nlohmann::json arm_json(const std::optional<Arm>& arm) {
  return arm ? arm_json(*arm) : nlohmann::json();
}

void read_arm(JsonReader& reader, const nlohmann::json& json, const std::string& where, Arm& arm) {
  JsonReader inner(json, where);
  inner.read("version", arm.version);
  inner.read("kernel", arm.kernel);
  inner.read("url", arm.url);
  if (auto done = inner.finish(); !done) reader.fault(done.error());
}

void read_optional_arm(JsonReader& reader, const char* name, std::optional<Arm>& arm) {
  if (const auto* json = reader.optional(name)) read_arm(reader, *json, reader.at(name), arm.emplace());
}

void read_slices(JsonReader& reader, std::vector<SliceWeight>& slices) {
  const auto* array = reader.array("slices");
  if (array == nullptr) return;
  for (std::size_t i = 0; i < array->size(); ++i) {
    JsonReader inner((*array)[i], fmt::format("{}/{}", reader.at("slices"), i));
    SliceWeight weight;
    inner.read("where", weight.where);
    inner.read("candidate_bp", weight.candidate_bp);
    inner.read("to_fallback", weight.to_fallback);
    if (auto done = inner.finish(); !done) reader.fault(done.error());
    slices.push_back(std::move(weight));
  }
}

schema::ErrorCode code_by_name(std::string_view name) {
  for (int value = 0; value <= static_cast<int>(schema::ErrorCode::internal); ++value) {
    const auto code = static_cast<schema::ErrorCode>(value);
    if (schema::to_string(code) == name) return code;
  }
  return schema::ErrorCode::internal;
}

}  // namespace

nlohmann::json to_json(const ModelRoute& route) {
  auto slices = nlohmann::json::array();
  for (const auto& weight : route.slices) {
    slices.push_back({{"where", weight.where},
                      {"candidate_bp", weight.candidate_bp},
                      {"to_fallback", weight.to_fallback}});
  }
  return {{"model", route.model},
          {"epoch", route.epoch},
          {"revision", route.revision},
          {"stage_key", route.stage_key},
          {"seed", route.seed},
          {"incumbent", arm_json(route.incumbent)},
          {"candidate", arm_json(route.candidate)},
          {"fallback", arm_json(route.fallback)},
          {"candidate_bp", route.candidate_bp},
          {"slices", std::move(slices)},
          {"all_to_fallback", route.all_to_fallback},
          {"mirror_bp", route.mirror_bp},
          {"mirror_token_budget", route.mirror_token_budget},
          {"pins", route.pins}};
}

schema::Result<ModelRoute> route_from_json(const nlohmann::json& json) {
  ModelRoute route;
  JsonReader reader(json, "/route");
  reader.read("model", route.model);
  reader.read("epoch", route.epoch);
  reader.read("revision", route.revision);
  reader.read("stage_key", route.stage_key);
  reader.read("seed", route.seed);
  if (const auto* incumbent = reader.optional("incumbent")) {
    read_arm(reader, *incumbent, reader.at("incumbent"), route.incumbent);
  } else {
    reader.fault("is missing", reader.at("incumbent"));
  }
  read_optional_arm(reader, "candidate", route.candidate);
  read_optional_arm(reader, "fallback", route.fallback);
  reader.read("candidate_bp", route.candidate_bp);
  read_slices(reader, route.slices);
  reader.read("all_to_fallback", route.all_to_fallback);
  reader.read("mirror_bp", route.mirror_bp);
  reader.read("mirror_token_budget", route.mirror_token_budget);
  reader.read("pins", route.pins);
  TRY(reader.finish());
  return route;
}

nlohmann::json to_json(const ObservedRoute& observed) {
  return {{"route", to_json(observed.route)}, {"reverted", observed.reverted}};
}

schema::Result<ObservedRoute> observed_from_json(const nlohmann::json& json) {
  ObservedRoute observed;
  JsonReader reader(json, "");
  reader.read("reverted", observed.reverted);
  if (const auto* inner = reader.optional("route")) {
    auto route = TRY(route_from_json(*inner));
    observed.route = std::move(route);
  } else {
    reader.fault("is missing", reader.at("route"));
  }
  TRY(reader.finish());
  return observed;
}

nlohmann::json to_json(const Capabilities& capabilities) {
  return {{"basis_points", capabilities.basis_points},
          {"sticky", capabilities.sticky},
          {"slice", capabilities.slice},
          {"mirror", capabilities.mirror},
          {"atomic_change", capabilities.atomic_change},
          {"max_mirrored_body_bytes", capabilities.max_mirrored_body_bytes}};
}

nlohmann::json to_json(const schema::Error& error) {
  return {{"code", schema::to_string(error.code)}, {"message", error.describe()}};
}

schema::Error error_from_json(const nlohmann::json& json) {
  schema::Error error{schema::ErrorCode::internal, "the router refused without a reason", {}, nullptr};
  if (!json.is_object()) return error;
  if (const auto code = json.find("code"); code != json.end() && code->is_string()) {
    error.code = code_by_name(code->get_ref<const std::string&>());
  }
  if (const auto message = json.find("message"); message != json.end() && message->is_string()) {
    error.message = message->get<std::string>();
  }
  return error;
}

schema::Result<nlohmann::json> parse_json(std::string_view text) {
  bool too_deep = false;
  const auto watch_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  auto json = nlohmann::json::parse(text, watch_depth, false);
  if (too_deep || json.is_discarded()) {
    return schema::fail(schema::ErrorCode::invalid_document,
                        too_deep ? "JSON is nested deeper than 32 levels" : "text is not JSON");
  }
  return json;
}

}  // namespace driftgate::route
