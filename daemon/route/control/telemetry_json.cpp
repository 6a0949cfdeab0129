#include "daemon/route/control/telemetry_json.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "daemon/route/table/json_codec.hpp"
#include "daemon/route/table/route_json.hpp"

namespace driftgate::route {

namespace {

constexpr std::size_t kUsualRowBytes = 96;

template <std::integral Number>
void append_cell(std::string& out, Number number) {
  std::array<char, 24> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end);
}

/// Times in ms, to the µs: the shortest form of a double has more digits than the clock, and takes longer.
void append_cell(std::string& out, double ms) {
  constexpr double kMostExact = 1e12;
  if (!std::isfinite(ms)) {
    out += "null";
  } else if (ms < 0 || ms > kMostExact) {
    fmt::format_to(std::back_inserter(out), "{}", ms);
  } else {
    const auto us = static_cast<std::uint64_t>(std::llround(ms * 1'000));
    append_cell(out, us / 1'000);
    const auto part = us % 1'000;
    if (part == 0) return;
    const std::array<char, 4> fraction{'.', static_cast<char>('0' + part / 100),
                                       static_cast<char>('0' + part / 10 % 10),
                                       static_cast<char>('0' + part % 10)};
    out.append(fraction.data(), fraction.size());
  }
}

template <typename... Number>
void append_row(std::string& out, Number... numbers) {
  char before = '[';
  ((out += std::exchange(before, ','), append_cell(out, numbers)), ...);
  out += ']';
}

}  // namespace

// Without what may be absent (`previous`, `others`, `others_failed`), and without `observations`, which have
// a form of their own.
BOOST_DESCRIBE_STRUCT(Window, (),
                      (number, router_id, model, stage_key, start_us, end_us, dropped, mirrored,
                       mirror_failed, mirror_skipped))
using Side = MirroredPair::Side;
BOOST_DESCRIBE_STRUCT(Side, (), (status, body, reason, ttft_ms, inter_token_ms, total_ms, in_flight))
// Without `state`, which is a name, and `in_flight`, which may be absent.
BOOST_DESCRIBE_STRUCT(EngineStatus, (),
                      (url, failures, reason, first_failure_us, open_ms, first_byte_ms, answer_ms))
BOOST_DESCRIBE_STRUCT(BreakerEvent, (),
                      (number, url, opened, reason, failures, at_us, first_failure_us, open_ms))
BOOST_DESCRIBE_STRUCT(MirroredPair, (), (order, key_hash, slice, path, request_body, incumbent, candidate))

namespace {

constexpr std::size_t kObservationFields = 12;
constexpr unsigned kKeyless = 1, kPinned = 2, kCandidate = 4, kRetried = 8, kWithheld = 16;

unsigned flags_of(const Observation& seen) {
  return (seen.keyless ? kKeyless : 0u) | (seen.pinned ? kPinned : 0u) | (seen.candidate ? kCandidate : 0u) |
         (seen.retried ? kRetried : 0u) | (seen.withheld ? kWithheld : 0u);
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
  seen.withheld = (flags & kWithheld) != 0;
  seen.slice = strings[slice];
  seen.outcome = static_cast<Outcome>(outcome);
  seen.reason = strings[reason];
  return true;
}

}  // namespace

std::string window_to_text(const Window& window) {
  StringTable strings;
  std::string rows;
  rows.reserve(kUsualRowBytes * window.observations.size());
  for (const auto& seen : window.observations) {
    if (!rows.empty()) rows += ',';
    const auto slice = strings.index(seen.slice);
    const auto reason = strings.index(seen.reason);
    append_row(rows, seen.order, seen.key_hash, flags_of(seen), seen.candidate_bp, slice,
               static_cast<unsigned>(seen.outcome), reason, seen.routed_us, seen.ttft_ms, seen.inter_token_ms,
               seen.total_ms, seen.prompt_chars);
  }
  auto head = json_of(window);
  head["previous"] = window.previous;
  head["others"] = window.others;
  head["others_failed"] = window.others_failed;
  auto text = dumped(head);
  text.pop_back();
  text.append(",\"strings\":").append(strings.text()).append(",\"observations\":[");
  text.append(rows);
  text.append("]}");
  return text;
}

schema::Result<Window> window_from_json(const nlohmann::json& json) {
  Window window;
  std::vector<std::string> strings;
  // Absent from a router of an older version, which is adopted all the same.
  std::optional<std::uint64_t> previous, others, others_failed;
  JsonReader reader;
  reader.read(json, "/window", window, {"previous", "others", "others_failed", "strings", "observations"});
  reader.read_member(json, "/window", "previous", previous);
  reader.read_member(json, "/window", "others", others);
  reader.read_member(json, "/window", "others_failed", others_failed);
  reader.read_member(json, "/window", "strings", strings);
  const auto rows = json.find("observations");
  if (rows == json.end() || !rows->is_array()) reader.fault("must be an array", "/window/observations");
  TRY(reader.finish());
  window.previous = previous.value_or(0);
  window.others = others.value_or(0);
  window.others_failed = others_failed.value_or(0);
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

namespace {

void read_engine(JsonReader& reader, const nlohmann::json& json, const std::string& where,
                 EngineStatus& engine) {
  reader.read(json, where, engine, {"state", "in_flight"});
  if (!json.is_object()) return;
  std::optional<std::uint32_t> in_flight;
  reader.read_member(json, where, "in_flight", in_flight);
  engine.in_flight = in_flight.value_or(0);
  std::string name;
  reader.read_member(json, where, "state", name);
  for (const auto state : {BreakerState::closed, BreakerState::open, BreakerState::half_open}) {
    if (name != to_string(state)) continue;
    engine.state = state;
    return;
  }
  reader.fault("is no state of a breaker", where + "/state");
}

/// The list `name`; null, and a fault, when it is none or too long.
const nlohmann::json* list_in(JsonReader& reader, const nlohmann::json& json, const char* name,
                              std::size_t most) {
  const auto found = json.find(name);
  const auto where = fmt::format("/health/{}", name);
  if (found == json.end() || !found->is_array()) {
    reader.fault("must be an array", where);
  } else if (found->size() > most) {
    reader.fault(fmt::format("has more than {} elements", most), where);
  } else {
    return &*found;
  }
  return nullptr;
}

}  // namespace

nlohmann::json to_json(const HealthReport& report) {
  auto engines = nlohmann::json::array();
  for (const auto& engine : report.engines) {
    if (engines.size() >= kMaxReportedEngines) break;
    engines.push_back(json_of(engine));
    engines.back()["state"] = to_string(engine.state);
    engines.back()["in_flight"] = engine.in_flight;
  }
  return {
      {"router_id", report.router_id}, {"engines", std::move(engines)}, {"events", json_of(report.events)}};
}

schema::Result<HealthReport> health_from_json(const nlohmann::json& json) {
  HealthReport report;
  JsonReader reader;
  if (!json.is_object() || json.size() != 3)
    reader.fault("must have router_id, engines and events", "/health");
  TRY(reader.finish());
  reader.read_member(json, "/health", "router_id", report.router_id);
  const auto* const engines = list_in(reader, json, "engines", kMaxReportedEngines);
  const auto* const events = list_in(reader, json, "events", kMaxBreakerEvents);
  TRY(reader.finish());
  report.engines.resize(engines->size());
  for (std::size_t i = 0; i < engines->size(); ++i)
    read_engine(reader, (*engines)[i], fmt::format("/health/engines/{}", i), report.engines[i]);
  reader.read(*events, "/health/events", report.events);
  for (const auto& engine : report.engines) {
    if (engine.reason.size() > kMaxReasonBytes)
      reader.fault("has a reason that is too long", "/health/engines");
  }
  std::uint64_t newest = 0;
  for (const auto& event : report.events) {
    if (event.reason.size() > kMaxReasonBytes)
      reader.fault("has a reason that is too long", "/health/events");
    if (event.number <= std::exchange(newest, event.number))
      reader.fault("are not numbered upwards", "/health/events");
  }
  TRY(reader.finish());
  return report;
}

std::string pair_to_line(const MirroredPair& pair) {
  return dumped(json_of(pair));
}

schema::Result<MirroredPair> pair_from_line(std::string_view line) {
  const auto json = TRY(parse_json(line));
  return described_from_json<MirroredPair>(json, "");
}

}  // namespace driftgate::route
