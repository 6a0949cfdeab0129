#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "daemon/jobs/worker.hpp"
#include "schema/json.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr schema::JsonLimits kLimits{.bytes = 4u << 20, .depth = 32, .values = 100'000};

/// Runs `read` on the parsed payload and turns a missing or mistyped member into an error.
template <typename T, typename F>
schema::Result<T> parse(std::string_view text, F read) {
  auto parsed = TRY(schema::parse_json(text, kLimits, "the job's payload"));
  try {
    T payload;
    read(parsed, payload);
    return payload;
  } catch (const json::exception& fault) {
    return schema::fail(ErrorCode::invalid_document, fmt::format("the job's payload: {}", fault.what()));
  }
}

void put_floor(json& out, const char* name, const std::optional<DriftPayload::FloorPair>& floor) {
  if (floor) out[name] = json::array({floor->first, floor->second});
}

std::optional<DriftPayload::FloorPair> read_floor(const json& value, const char* name) {
  const auto found = value.find(name);
  if (found == value.end()) return std::nullopt;
  return DriftPayload::FloorPair{found->at(0).get<std::string>(), found->at(1).get<std::string>()};
}

json side_json(const RescorePayload::Side& side) {
  return {{"url", side.url},
          {"model", side.model},
          {"kernel", side.kernel},
          {"can_rescore", side.can_rescore},
          {"token_ids", side.token_ids}};
}

void read_side(const json& value, RescorePayload::Side& side) {
  value.at("url").get_to(side.url);
  value.at("model").get_to(side.model);
  value.at("kernel").get_to(side.kernel);
  value.at("can_rescore").get_to(side.can_rescore);
  value.at("token_ids").get_to(side.token_ids);
}

}  // namespace

std::string to_json(const DriftPayload& payload) {
  json value{{"train", payload.train},          {"inf", payload.inf},     {"corpus", payload.corpus},
             {"contract", payload.contract},    {"roots", payload.roots}, {"threads", payload.threads},
             {"worst_rows", payload.worst_rows}};
  put_floor(value, "floor_train", payload.floor_train);
  put_floor(value, "floor_inf", payload.floor_inf);
  return schema::canonical_json(value);
}

schema::Result<DriftPayload> drift_payload_from_json(std::string_view text) {
  return parse<DriftPayload>(text, [](const json& value, DriftPayload& payload) {
    value.at("train").get_to(payload.train);
    value.at("inf").get_to(payload.inf);
    value.at("corpus").get_to(payload.corpus);
    value.at("contract").get_to(payload.contract);
    value.at("roots").get_to(payload.roots);
    value.at("threads").get_to(payload.threads);
    value.at("worst_rows").get_to(payload.worst_rows);
    payload.floor_train = read_floor(value, "floor_train");
    payload.floor_inf = read_floor(value, "floor_inf");
  });
}

std::string to_json(const CapturePayload& payload) {
  return schema::canonical_json(json{{"adapter", payload.adapter}, {"argv", payload.argv}});
}

schema::Result<CapturePayload> capture_payload_from_json(std::string_view text) {
  return parse<CapturePayload>(text, [](const json& value, CapturePayload& payload) {
    value.at("adapter").get_to(payload.adapter);
    value.at("argv").get_to(payload.argv);
  });
}

std::string to_json(const RescorePayload& payload) {
  return schema::canonical_json(json{{"spool", payload.spool},
                                     {"incumbent", side_json(payload.incumbent)},
                                     {"candidate", side_json(payload.candidate)},
                                     {"checkpoint", payload.checkpoint},
                                     {"contract", payload.contract},
                                     {"max_rescored", payload.max_rescored},
                                     {"batch_prompts", payload.batch_prompts},
                                     {"seed", fmt::format("{:016x}", payload.seed)},
                                     {"allowed_hosts", payload.outgoing.allowed_hosts},
                                     {"public_hosts", payload.outgoing.public_hosts}});
}

schema::Result<RescorePayload> rescore_payload_from_json(std::string_view text) {
  std::string seed;
  auto read = parse<RescorePayload>(text, [&](const json& value, RescorePayload& payload) {
    value.at("spool").get_to(payload.spool);
    read_side(value.at("incumbent"), payload.incumbent);
    read_side(value.at("candidate"), payload.candidate);
    value.at("checkpoint").get_to(payload.checkpoint);
    value.at("contract").get_to(payload.contract);
    value.at("max_rescored").get_to(payload.max_rescored);
    value.at("batch_prompts").get_to(payload.batch_prompts);
    value.at("allowed_hosts").get_to(payload.outgoing.allowed_hosts);
    value.at("public_hosts").get_to(payload.outgoing.public_hosts);
    value.at("seed").get_to(seed);
  });
  if (!read) return read;
  const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), read->seed, 16);
  if (error != std::errc{} || end != seed.data() + seed.size()) {
    return schema::fail(
        ErrorCode::invalid_document,
        fmt::format("the job's payload: '{}' is no number of at most 16 hexadecimal digits", seed), "/seed");
  }
  return read;
}

}  // namespace driftgate::jobs
