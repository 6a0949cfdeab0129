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

/// A payload whose further members are read by `read`; a missing or mistyped member is an error.
template <typename T, typename F>
schema::Result<T> parse(std::string_view text, F read) {
  auto parsed = TRY(schema::parse_json(text, kLimits, "the job's payload"));
  try {
    auto payload = parsed.get<T>();
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

void put_captures_of(json& out, const std::optional<CapturesOf>& of) {
  if (!of) return;
  out["captures_of"] = {
      {"train_kernel", of->train_kernel}, {"inf_kernel", of->inf_kernel}, {"checkpoint", of->checkpoint}};
}

std::optional<CapturesOf> read_captures_of(const json& value) {
  const auto found = value.find("captures_of");
  if (found == value.end()) return std::nullopt;
  return CapturesOf{found->at("train_kernel").get<std::string>(), found->at("inf_kernel").get<std::string>(),
                    found->at("checkpoint").get<std::string>()};
}

/// An engine that asks for nothing has no such member, as in payloads of earlier versions.
void put_access(json& side, const base::EngineAccess& access) {
  if (!access.any()) return;
  side["access"] = {
      {"key_file", access.key_file}, {"key_header", access.key_header}, {"ca_file", access.ca_file}};
}

void read_access(const json& side, base::EngineAccess& access) {
  const auto found = side.find("access");
  if (found == side.end()) return;
  found->at("key_file").get_to(access.key_file);
  found->at("key_header").get_to(access.key_header);
  found->at("ca_file").get_to(access.ca_file);
}

/// Members that are absent where they have their usual value, as in payloads of earlier versions.
void put_ranks(json& out, const DriftPayload& payload) {
  const DriftPayload usual;
  if (payload.device != usual.device) out["device"] = payload.device;
  if (payload.exchange != usual.exchange) out["exchange"] = payload.exchange;
  if (payload.shard != usual.shard) out["shard"] = payload.shard;
  if (payload.chunk_bytes != usual.chunk_bytes) out["chunk_bytes"] = payload.chunk_bytes;
}

void read_ranks(const json& value, DriftPayload& payload) {
  payload.device = value.value("device", payload.device);
  payload.exchange = value.value("exchange", payload.exchange);
  payload.shard = value.value("shard", payload.shard);
  payload.chunk_bytes = value.value("chunk_bytes", payload.chunk_bytes);
}

}  // namespace

// Members that every payload must have; what else there is of a payload is read and written below.
using RescoreSide = RescorePayload::Side;
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DriftPayload, train, inf, corpus, contract, roots, threads, worst_rows)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CapturePayload, adapter, argv)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RescoreSide, url, model, kernel, scoring, token_ids, logprobs_by,
                                   chat_logprobs)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RescorePayload, spool, incumbent, candidate, checkpoint, contract,
                                   max_rescored, batch_prompts, compare_greedy)

std::string to_json(const DriftPayload& payload) {
  json value = payload;
  put_floor(value, "floor_train", payload.floor_train);
  put_floor(value, "floor_inf", payload.floor_inf);
  put_ranks(value, payload);
  put_captures_of(value, payload.captures_of);
  return schema::canonical_json(value);
}

schema::Result<DriftPayload> drift_payload_from_json(std::string_view text) {
  return parse<DriftPayload>(text, [](const json& value, DriftPayload& payload) {
    payload.floor_train = read_floor(value, "floor_train");
    payload.floor_inf = read_floor(value, "floor_inf");
    read_ranks(value, payload);
    payload.captures_of = read_captures_of(value);
  });
}

std::string to_json(const CapturePayload& payload) {
  return schema::canonical_json(json(payload));
}

schema::Result<CapturePayload> capture_payload_from_json(std::string_view text) {
  return parse<CapturePayload>(text, [](const json&, CapturePayload&) {});
}

std::string to_json(const RescorePayload& payload) {
  json value = payload;
  value["seed"] = fmt::format("{:016x}", payload.seed);
  value["allowed_hosts"] = payload.outgoing.allowed_hosts;
  value["public_hosts"] = payload.outgoing.public_hosts;
  put_access(value["incumbent"], payload.incumbent.access);
  put_access(value["candidate"], payload.candidate.access);
  return schema::canonical_json(value);
}

schema::Result<RescorePayload> rescore_payload_from_json(std::string_view text) {
  std::string seed;
  auto read = parse<RescorePayload>(text, [&](const json& value, RescorePayload& payload) {
    value.at("allowed_hosts").get_to(payload.outgoing.allowed_hosts);
    value.at("public_hosts").get_to(payload.outgoing.public_hosts);
    value.at("seed").get_to(seed);
    read_access(value.at("incumbent"), payload.incumbent.access);
    read_access(value.at("candidate"), payload.candidate.access);
  });
  if (!read) return read;
  const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), read->seed, 16);
  if (error != std::errc{} || end != seed.data() + seed.size()) {
    return schema::fail(
        ErrorCode::invalid_document,
        fmt::format("the job's payload: '{}' is not a number of at most 16 hexadecimal digits", seed),
        "/seed");
  }
  return read;
}

}  // namespace driftgate::jobs
