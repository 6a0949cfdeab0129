#include "daemon/route/table/route_json.hpp"

#include "daemon/base/json_members.hpp"
#include "daemon/route/table/json_codec.hpp"

namespace driftgate::route {

/// An engine that asks for something, as JSON has it.
struct AccessEntry {
  std::string url{}, key_file{}, key_header{}, ca_file{};
};

BOOST_DESCRIBE_STRUCT(AccessEntry, (), (url, key_file, key_header, ca_file))
BOOST_DESCRIBE_STRUCT(Arm, (), (version, kernel, url))
BOOST_DESCRIBE_STRUCT(SliceWeight, (), (where, candidate_bp, to_fallback))
BOOST_DESCRIBE_STRUCT(ModelRoute, (),
                      (model, epoch, revision, stage_key, seed, incumbent, candidate, fallback, candidate_bp,
                       slices, all_to_fallback, mirror_bp, mirror_token_budget, pins))
BOOST_DESCRIBE_STRUCT(ObservedRoute, (), (route, reverted))
BOOST_DESCRIBE_STRUCT(Capabilities, (),
                      (plane, basis_points, sticky_monotone, slices, mirror_response, mirror_isolated,
                       read_back, atomic, per_arm_latency, token_times, prompt_length, watches_incumbent,
                       engine_access, max_mirrored_body_bytes))

namespace {

constexpr int kMaxDepth = 32;

schema::ErrorCode code_by_name(std::string_view name) {
  for (int value = 0; value <= static_cast<int>(schema::ErrorCode::internal); ++value) {
    const auto code = static_cast<schema::ErrorCode>(value);
    if (schema::to_string(code) == name) return code;
  }
  return schema::ErrorCode::internal;
}

}  // namespace

nlohmann::json to_json(const ModelRoute& route) {
  return json_of(route);
}

schema::Result<ModelRoute> route_from_json(const nlohmann::json& json) {
  return described_from_json<ModelRoute>(json, "/route");
}

nlohmann::json to_json(const ObservedRoute& observed) {
  return json_of(observed);
}

schema::Result<ObservedRoute> observed_from_json(const nlohmann::json& json) {
  return described_from_json<ObservedRoute>(json, "");
}

nlohmann::json to_json(const AccessByUrl& access) {
  std::vector<AccessEntry> list;
  for (const auto& [url, asked] : access)
    list.push_back({url, asked.key_file, asked.key_header, asked.ca_file});
  return json_of(list);
}

schema::Result<AccessByUrl> access_from_json(const nlohmann::json& json) {
  std::vector<AccessEntry> list;
  JsonReader reader;
  reader.read(json, "/access", list);
  TRY(reader.finish());
  AccessByUrl access;
  for (auto& entry : list) {
    access[entry.url] = {std::move(entry.key_file), std::move(entry.key_header), std::move(entry.ca_file)};
  }
  return access;
}

nlohmann::json to_json(const Capabilities& capabilities) {
  return json_of(capabilities);
}

nlohmann::json to_json(const schema::Error& error) {
  return {{"code", schema::to_string(error.code)}, {"message", error.describe()}};
}

schema::Error error_from_json(const nlohmann::json& json) {
  auto message = base::maybe_text_at(json, "message").value_or("the router gave no reason for its refusal");
  return {code_by_name(base::text_at(json, "code")), std::move(message), {}, nullptr};
}

std::string dumped(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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
