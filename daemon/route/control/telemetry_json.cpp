#include "daemon/route/control/telemetry_json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <unordered_map>

#include "daemon/route/table/json_codec.hpp"
#include "daemon/route/table/route_json.hpp"

namespace driftgate::route {

// Without `previous`, which may be absent, and `observations`, which have a form of their own.
BOOST_DESCRIBE_STRUCT(Window, (),
                      (number, router_id, model, stage_key, start_us, end_us, dropped, mirrored,
                       mirror_failed, mirror_skipped))
using Side = MirroredPair::Side;
BOOST_DESCRIBE_STRUCT(Side, (), (status, body, reason, ttft_ms, inter_token_ms, total_ms))
BOOST_DESCRIBE_STRUCT(MirroredPair, (), (order, key_hash, slice, path, request_body, incumbent, candidate))

namespace {

constexpr std::size_t kObservationFields = 12;
constexpr unsigned kKeyless = 1, kPinned = 2, kCandidate = 4, kRetried = 8;

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
  [[nodiscard]] std::string text() const { return dumped(strings_); }

 private:
  nlohmann::json strings_ = nlohmann::json::array();
  std::unordered_map<std::string_view, std::size_t> places_;
};

bool read_observation(const nlohmann::json& row, const std::vector<std::string>& strings, Observation& seen) {
  if (!row.is_array() || row.size() != kObservationFields) return false;
  std::uint32_t flags = 0;
  std::size_t slice = 0, outcome = 0, reason = 0;
  JsonReader reader;
  const auto read = [&](std::size_t field, auto& out) { reader.read(row[field], "", out); };
  read(0, seen.order);
  read(1, seen.key_hash);
  read(2, flags);
  read(3, seen.candidate_bp);
  read(4, slice);
  read(5, outcome);
  read(6, reason);
  read(7, seen.routed_us);
  read(8, seen.ttft_ms);
  read(9, seen.inter_token_ms);
  read(10, seen.total_ms);
  read(11, seen.prompt_chars);
  if (!reader.finish() || slice >= strings.size() || reason >= strings.size() || outcome > 2) return false;
  seen.keyless = (flags & kKeyless) != 0;
  seen.pinned = (flags & kPinned) != 0;
  seen.candidate = (flags & kCandidate) != 0;
  seen.retried = (flags & kRetried) != 0;
  seen.slice = strings[slice];
  seen.outcome = static_cast<Outcome>(outcome);
  seen.reason = strings[reason];
  return true;
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
  auto head = json_of(window);
  head["previous"] = window.previous;
  auto text = dumped(head);
  text.pop_back();
  text.append(",\"strings\":").append(strings.text()).append(",\"observations\":[");
  text.append(rows.data(), rows.size());
  text.append("]}");
  return text;
}

schema::Result<Window> window_from_json(const nlohmann::json& json) {
  Window window;
  std::vector<std::string> strings;
  std::optional<std::uint64_t>
      previous;  // absent from a router of an older version, which is adopted all the same
  JsonReader reader;
  reader.read(json, "/window", window, {"previous", "strings", "observations"});
  reader.read_member(json, "/window", "previous", previous);
  reader.read_member(json, "/window", "strings", strings);
  const auto rows = json.find("observations");
  if (rows == json.end() || !rows->is_array()) reader.fault("must be an array", "/window/observations");
  TRY(reader.finish());
  window.previous = previous.value_or(0);
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
  return dumped(json_of(pair));
}

schema::Result<MirroredPair> pair_from_line(std::string_view line) {
  const auto json = TRY(parse_json(line));
  return described_from_json<MirroredPair>(json, "");
}

}  // namespace driftgate::route
