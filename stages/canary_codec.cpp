#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "stages/canary_impl.hpp"

namespace driftgate::stages {
namespace {

using nlohmann::json;

constexpr int kStateVersion = 1;
constexpr std::size_t kKeyDigits = 17;  ///< 16 hex digits of the hash and one of its bits

/// Sorted, so that equal states give equal text.
std::string keys_to_text(const std::unordered_map<std::uint64_t, std::uint8_t>& keys) {
  std::vector<std::pair<std::uint64_t, std::uint8_t>> sorted(keys.begin(), keys.end());
  std::ranges::sort(sorted);
  std::string text;
  text.reserve(sorted.size() * kKeyDigits);
  for (const auto& [key, bits] : sorted) fmt::format_to(std::back_inserter(text), "{:016x}{:x}", key, bits);
  return text;
}

bool keys_from_text(std::string_view text, std::unordered_map<std::uint64_t, std::uint8_t>& keys) {
  if (text.size() % kKeyDigits != 0) return false;
  const auto parse = [](std::string_view digits, auto& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return error == std::errc{} && end == digits.data() + digits.size();
  };
  for (; !text.empty(); text.remove_prefix(kKeyDigits)) {
    std::uint64_t key = 0;
    std::uint8_t bits = 0;
    if (!parse(text.substr(0, kKeyDigits - 1), key) || !parse(text.substr(kKeyDigits - 1, 1), bits))
      return false;
    keys[key] = bits;
  }
  return true;
}

json head_to_json(const StreamHead& head) {
  json value{{"clause", head.clause.address()}, {"where", head.where}, {"rearms", head.rearms}};
  if (head.trip) {
    value["trip"] = {{"at_ms", head.trip->at_ms},
                     {"clean_windows", head.trip->clean_windows},
                     {"evidence_seen", head.trip->evidence_seen},
                     {"action", static_cast<int>(head.trip->action)},
                     {"message", head.trip->message}};
  }
  return value;
}

bool restore_head(const json& value, StreamHead& head) {
  if (value.at("clause").get<std::string>() != head.clause.address()) return false;
  if (value.at("where").get<schema::SliceWhere>() != head.where) return false;
  value.at("rearms").get_to(head.rearms);
  if (!value.contains("trip")) return true;
  const json& trip = value.at("trip");
  head.trip =
      Trip{trip.at("at_ms").get<std::int64_t>(), trip.at("clean_windows").get<std::uint32_t>(),
           trip.at("evidence_seen").get<std::uint64_t>(),
           static_cast<schema::Action>(trip.at("action").get<int>()), trip.at("message").get<std::string>()};
  return true;
}

template <typename Stream>
json streams_to_json(const std::vector<Stream>& streams) {
  json list = json::array();
  for (const Stream& stream : streams)
    list.push_back({{"head", head_to_json(stream.head)}, {"state", stream.to_json()}});
  return list;
}

template <typename Stream>
bool restore_streams(const json& list, std::vector<Stream>& streams) {
  if (list.size() != streams.size()) return false;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (!restore_head(list.at(i).at("head"), streams[i].head)) return false;
    streams[i].restore(list.at(i).at("state"));
  }
  return true;
}

schema::Error damaged(const std::string& what) {
  return {schema::ErrorCode::corrupt, "the stored canary state is damaged: " + what, "stream_state", nullptr};
}

}  // namespace

json RateStream::to_json() const {
  json rate = json::array();
  json label = json::array();
  for (const FailureRateProcess& process : rate_) rate.push_back(process.to_json());
  for (const LabelProcess& process : label_) label.push_back(process.to_json());
  return {{"starts", starts_},
          {"rate", std::move(rate)},
          {"label", std::move(label)},
          {"keys", keys_},
          {"failed_keys", failed_keys_},
          {"failures_seen", failures_seen_},
          {"failures_skipped", failures_skipped_}};
}

void RateStream::restore(const json& value) {
  value.at("starts").get_to(starts_);
  value.at("keys").get_to(keys_);
  value.at("failed_keys").get_to(failed_keys_);
  value.at("failures_seen").get_to(failures_seen_);
  value.at("failures_skipped").get_to(failures_skipped_);
  rate_.clear();
  label_.clear();
  const schema::Limits& limits = head.clause.limits;
  for (const json& process : value.at("rate")) {
    rate_.push_back(FailureRateProcess::from_json(process, limits.max.value_or(1)));
  }
  for (const json& process : value.at("label")) {
    label_.push_back(LabelProcess::from_json(process, limits.max_ratio.value_or(1)));
  }
}

json LatencyStream::to_json() const {
  json list = json::array();
  for (const auto& [stratum, arms] : values_) list.push_back({stratum, arms[0].to_json(), arms[1].to_json()});
  return list;
}

void LatencyStream::restore(const json& value) {
  values_.clear();
  for (const json& entry : value) {
    values_[entry.at(0).get<std::uint32_t>()] = {QuantileSequence::from_json(entry.at(1)),
                                                 QuantileSequence::from_json(entry.at(2))};
  }
}

std::string CanaryState::serialise() const {
  const Impl& s = *impl_;
  const json value{{"version", kStateVersion},
                   {"contract", s.contract_digest},
                   {"attempt", s.settings.attempt},
                   {"seed", s.settings.seed},
                   {"max_keys", s.settings.max_keys},
                   {"started", s.started},
                   {"rates", streams_to_json(s.rates)},
                   {"latencies", streams_to_json(s.latencies)},
                   {"split", s.split.to_json()},
                   {"keys", keys_to_text(s.keys)},
                   {"windows", s.windows},
                   {"counts",
                    {s.exposed_requests, s.exposed_keys, s.keys_in_step, s.uncounted_keys,
                     s.failed_keys_candidate, s.failed_requests_candidate, s.failed_requests_incumbent}},
                   {"first_failure_us", s.first_failure_us}};
  return value.dump();
}

schema::Result<CanaryState> CanaryState::deserialise(const schema::Contract& contract,
                                                     std::string_view text) {
  try {
    const json value = json::parse(text);
    if (value.at("version").get<int>() != kStateVersion) {
      return schema::fail(
          schema::ErrorCode::unsupported,
          "the stored canary state is of another version: finish or abort this canary with the program "
          "that began it",
          "stream_state");
    }
    if (value.at("contract").get<std::string>() != contract.digest) {
      return schema::fail(schema::ErrorCode::conflict,
                          "the stored canary state belongs to contract " +
                              value.at("contract").get<std::string>() + ", not to " + contract.digest,
                          "stream_state");
    }
    auto state =
        create(contract, {value.at("attempt").get<std::uint32_t>(), value.at("seed").get<std::uint64_t>(),
                          value.at("max_keys").get<std::size_t>()});
    if (!state) return state;
    Impl& s = *state->impl_;
    value.at("started").get_to(s.started);
    if (!restore_streams(value.at("rates"), s.rates) ||
        !restore_streams(value.at("latencies"), s.latencies)) {
      return std::unexpected(damaged("its clauses are not those of the contract"));
    }
    s.split = SplitGuard::from_json(value.at("split"));
    if (!keys_from_text(value.at("keys").get_ref<const std::string&>(), s.keys)) {
      return std::unexpected(damaged("its set of keys cannot be read"));
    }
    value.at("windows").get_to(s.windows);
    const json& counts = value.at("counts");
    std::uint64_t* const fields[] = {
        &s.exposed_requests,         &s.exposed_keys,          &s.keys_in_step,
        &s.uncounted_keys,           &s.failed_keys_candidate, &s.failed_requests_candidate,
        &s.failed_requests_incumbent};
    for (std::size_t i = 0; i < std::size(fields); ++i) counts.at(i).get_to(*fields[i]);
    value.at("first_failure_us").get_to(s.first_failure_us);
    return state;
  } catch (const json::exception& error) {
    return std::unexpected(damaged(error.what()));
  }
}

}  // namespace driftgate::stages
