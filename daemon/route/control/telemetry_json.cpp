#include "daemon/route/control/telemetry_json.hpp"

#include <cmath>
#include <iterator>
#include <unordered_map>

#include "daemon/route/http/json_reader.hpp"
#include "daemon/route/table/route_json.hpp"

namespace driftgate::route {
namespace {

constexpr std::size_t kObservationFields = 12;
constexpr unsigned kKeyless = 1, kPinned = 2, kCandidate = 4, kRetried = 8;
constexpr auto kReplaceBadUtf8 = nlohmann::json::error_handler_t::replace;

unsigned flags_of(const Observation& seen) {
  return (seen.keyless ? kKeyless : 0u) | (seen.pinned ? kPinned : 0u) | (seen.candidate ? kCandidate : 0u) |
         (seen.retried ? kRetried : 0u);
}

std::string number_or_null(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

/// Collects distinct strings; the views stay valid as long as the window.
class StringTable {
 public:
  std::size_t index(std::string_view text) {
    const auto [place, added] = places_.try_emplace(text, places_.size());
    if (added) strings_.push_back(std::string(text));
    return place->second;
  }
  [[nodiscard]] std::string text() const { return strings_.dump(-1, ' ', false, kReplaceBadUtf8); }

 private:
  nlohmann::json strings_ = nlohmann::json::array();
  std::unordered_map<std::string_view, std::size_t> places_;
};

bool read_number(const nlohmann::json& json, double& out) {
  out = json.is_null() ? std::nan("") : 0.0;
  if (json.is_null()) return true;
  if (!json.is_number()) return false;
  out = json.get<double>();
  return true;
}

bool read_observation(const nlohmann::json& row, const std::vector<std::string>& strings, Observation& seen) {
  if (!row.is_array() || row.size() != kObservationFields) return false;
  for (const std::size_t i : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 11u}) {
    if (!row[i].is_number_unsigned()) return false;
  }
  const auto slice = row[4].get<std::uint64_t>();
  const auto outcome = row[5].get<std::uint64_t>();
  const auto reason = row[6].get<std::uint64_t>();
  if (slice >= strings.size() || reason >= strings.size() || outcome > 2 || !row[7].is_number_integer())
    return false;
  const auto flags = row[2].get<unsigned>();
  seen.order = row[0].get<std::uint64_t>();
  seen.key_hash = row[1].get<std::uint64_t>();
  seen.keyless = (flags & kKeyless) != 0;
  seen.pinned = (flags & kPinned) != 0;
  seen.candidate = (flags & kCandidate) != 0;
  seen.retried = (flags & kRetried) != 0;
  seen.candidate_bp = row[3].get<std::uint32_t>();
  seen.slice = strings[slice];
  seen.outcome = static_cast<Outcome>(outcome);
  seen.reason = strings[reason];
  seen.routed_us = row[7].get<std::int64_t>();
  seen.prompt_chars = row[11].get<std::uint32_t>();
  return read_number(row[8], seen.ttft_ms) && read_number(row[9], seen.inter_token_ms) &&
         read_number(row[10], seen.total_ms);
}

nlohmann::json side_json(const MirroredPair::Side& side) {
  return {{"status", static_cast<std::uint64_t>(side.status)},
          {"body", side.body},
          {"reason", side.reason},
          {"ttft_ms", side.ttft_ms},
          {"inter_token_ms", side.inter_token_ms},
          {"total_ms", side.total_ms}};
}

void read_side(JsonReader& reader, const char* name, MirroredPair::Side& side) {
  const auto* json = reader.optional(name);
  if (json == nullptr) return reader.fault("is missing", reader.at(name));
  JsonReader inner(*json, reader.at(name));
  std::uint16_t status = 0;
  inner.read("status", status);
  side.status = status;
  inner.read("body", side.body);
  inner.read("reason", side.reason);
  const std::pair<const char*, double*> times[] = {
      {"ttft_ms", &side.ttft_ms}, {"inter_token_ms", &side.inter_token_ms}, {"total_ms", &side.total_ms}};
  for (const auto& [field, out] : times) {
    *out = std::nan("");
    if (const auto* value = inner.optional(field); value != nullptr && !read_number(*value, *out)) {
      inner.fault("must be a number or null", inner.at(field));
    }
  }
  if (auto done = inner.finish(); !done) reader.fault(done.error());
}

}  // namespace

std::string window_to_text(const Window& window) {
  StringTable strings;
  fmt::memory_buffer rows;
  for (const auto& seen : window.observations) {
    if (rows.size() > 0) rows.push_back(',');
    fmt::format_to(std::back_inserter(rows), "[{},{},{},{},{},{},{},{},{},{},{},{}]", seen.order,
                   seen.key_hash, flags_of(seen), seen.candidate_bp, strings.index(seen.slice),
                   static_cast<unsigned>(seen.outcome), strings.index(seen.reason), seen.routed_us,
                   number_or_null(seen.ttft_ms), number_or_null(seen.inter_token_ms),
                   number_or_null(seen.total_ms), seen.prompt_chars);
  }
  const nlohmann::json head = {{"number", window.number},
                               {"previous", window.previous},
                               {"router_id", window.router_id},
                               {"model", window.model},
                               {"stage_key", window.stage_key},
                               {"start_us", window.start_us},
                               {"end_us", window.end_us},
                               {"dropped", window.dropped},
                               {"mirrored", window.mirrored},
                               {"mirror_failed", window.mirror_failed},
                               {"mirror_skipped", window.mirror_skipped}};
  auto text = head.dump(-1, ' ', false, kReplaceBadUtf8);
  text.pop_back();
  text.append(",\"strings\":").append(strings.text()).append(",\"observations\":[");
  text.append(rows.data(), rows.size());
  text.append("]}");
  return text;
}

schema::Result<Window> window_from_json(const nlohmann::json& json) {
  Window window;
  JsonReader reader(json, "/window");
  reader.read("number", window.number);
  // Absent from a router that was started before windows said this; it is adopted all the same.
  if (const auto* previous = reader.optional("previous")) {
    if (!previous->is_number_unsigned())
      reader.fault("must be an integer from 0", reader.at("previous"));
    else
      window.previous = previous->get<std::uint64_t>();
  }
  reader.read("router_id", window.router_id);
  reader.read("model", window.model);
  reader.read("stage_key", window.stage_key);
  reader.read("start_us", window.start_us);
  reader.read("end_us", window.end_us);
  reader.read("dropped", window.dropped);
  reader.read("mirrored", window.mirrored);
  reader.read("mirror_failed", window.mirror_failed);
  reader.read("mirror_skipped", window.mirror_skipped);
  const auto* strings_json = reader.array("strings");
  const auto* rows = reader.array("observations");
  TRY(reader.finish());
  std::vector<std::string> strings;
  for (const auto& text : *strings_json) {
    if (!text.is_string())
      return schema::fail(schema::ErrorCode::invalid_document, "value must be a string", "/window/strings");
    strings.push_back(text.get<std::string>());
  }
  if (rows->size() > kMaxObservations) {
    return schema::fail(schema::ErrorCode::limit_exceeded, "window has too many observations",
                        "/window/observations");
  }
  window.observations.resize(rows->size());
  for (std::size_t i = 0; i < rows->size(); ++i) {
    if (!read_observation((*rows)[i], strings, window.observations[i])) {
      return schema::fail(schema::ErrorCode::invalid_document, "value is not an observation",
                          fmt::format("/window/observations/{}", i));
    }
  }
  return window;
}

std::string pair_to_line(const MirroredPair& pair) {
  const nlohmann::json json = {{"order", pair.order},
                               {"key_hash", pair.key_hash},
                               {"slice", pair.slice},
                               {"path", pair.path},
                               {"request_body", pair.request_body},
                               {"incumbent", side_json(pair.incumbent)},
                               {"candidate", side_json(pair.candidate)}};
  return json.dump(-1, ' ', false, kReplaceBadUtf8);
}

schema::Result<MirroredPair> pair_from_line(std::string_view line) {
  auto json = TRY(parse_json(line));
  MirroredPair pair;
  JsonReader reader(json, "");
  reader.read("order", pair.order);
  reader.read("key_hash", pair.key_hash);
  reader.read("slice", pair.slice);
  reader.read("path", pair.path);
  reader.read("request_body", pair.request_body);
  read_side(reader, "incumbent", pair.incumbent);
  read_side(reader, "candidate", pair.candidate);
  TRY(reader.finish());
  return pair;
}

}  // namespace driftgate::route
