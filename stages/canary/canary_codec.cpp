#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "stages/canary/canary_impl.hpp"

namespace driftgate::stages {
namespace {

using nlohmann::json;

constexpr int kStateVersion = 6;
/// Version 2 has no blocks of time and no history of failures, version 3 no periods of keys: they begin where
/// it is read. Version 4 has no signs of blocks, and a canary ends with the parts that it began with; nor
/// does it say how latencies wander, which is seen from there on.
constexpr int kFirstReadableVersion = 2, kFirstVersionWithBlocks = 3, kFirstVersionWithPeriods = 4,
              kFirstVersionWithSigns = 5;
// Hex digits of a key's hash, of its bits, and of each of its three last periods.
constexpr std::size_t kHashDigits = 16, kBitDigits = 2, kPeriodDigits = 4;

/// Sorted, so that equal states give equal text.
template <typename Keys>
std::string keys_to_text(const Keys& keys) {
  std::vector<typename Keys::const_pointer> sorted;
  sorted.reserve(keys.size());
  for (const auto& one : keys) sorted.push_back(&one);
  std::ranges::sort(sorted, {}, [](const auto* one) { return one->first; });
  std::string text;
  text.reserve(sorted.size() * (kHashDigits + kBitDigits + 3 * kPeriodDigits));
  for (const auto* one : sorted) {
    const auto& key = one->second;
    fmt::format_to(std::back_inserter(text), "{:016x}{:02x}{:04x}{:04x}{:04x}", one->first, key.bits,
                   key.hour, key.latency[0], key.latency[1]);
  }
  return text;
}

template <typename Keys>
bool keys_from_text(std::string_view text, bool has_periods, Keys& keys) {
  const std::size_t period_digits = has_periods ? kPeriodDigits : 0;
  if (text.size() % (kHashDigits + kBitDigits + 3 * period_digits) != 0) return false;
  const auto read = [&text](std::size_t digits, auto& number) {
    const char* const end = text.data() + digits;
    const auto [last, error] = std::from_chars(text.data(), end, number, 16);
    text.remove_prefix(digits);
    return digits == 0 || (error == std::errc{} && last == end);
  };
  while (!text.empty()) {
    std::uint64_t hash = 0;
    typename Keys::mapped_type key;
    if (!read(kHashDigits, hash) || !read(kBitDigits, key.bits) || !read(period_digits, key.hour) ||
        !read(period_digits, key.latency[0]) || !read(period_digits, key.latency[1]))
      return false;
    keys[hash] = key;
  }
  return true;
}

/// Tells the two streams of a latency clause with two limits apart.
std::string_view limit_name(const WatchedClause& watched) {
  const schema::Limits& limits = watched.clause.limits;
  if (limits.max && limits.max_ratio) return "both";
  return limits.max ? "max" : limits.max_ratio ? "max_ratio" : limits.max_delta ? "max_delta" : "signal";
}

json watched_to_json(const WatchedClause& watched) {
  json value{{"clause", watched.clause.address()},
             {"where", watched.where},
             {"limit", limit_name(watched)},
             {"rearms", watched.rearms},
             {"relapses", watched.relapses}};
  if (watched.trip) {
    value["trip"] = {{"at_ms", watched.trip->at_ms},
                     {"clean_windows", watched.trip->clean_windows},
                     {"evidence_seen", watched.trip->evidence_seen},
                     {"action", static_cast<int>(watched.trip->action)},
                     {"phase", static_cast<int>(watched.trip->phase)},
                     {"rule", watched.trip->rule},
                     {"message", watched.trip->message}};
  }
  return value;
}

bool restore_watched(const json& value, WatchedClause& watched) {
  if (value.at("clause").get<std::string>() != watched.clause.address()) return false;
  if (value.at("where").get<schema::SliceWhere>() != watched.where) return false;
  if (value.at("limit").get<std::string>() != limit_name(watched)) return false;
  value.at("rearms").get_to(watched.rearms);
  value.at("relapses").get_to(watched.relapses);
  if (!value.contains("trip")) return true;
  const json& trip = value.at("trip");
  const int action = trip.at("action").get<int>();
  const int phase = trip.at("phase").get<int>();
  if (action < 0 || action > static_cast<int>(schema::Action::block)) return false;
  if (phase < 0 || phase > static_cast<int>(TripPhase::probation)) return false;
  watched.trip = Trip{trip.at("at_ms").get<std::int64_t>(),
                      trip.at("clean_windows").get<std::uint32_t>(),
                      trip.at("evidence_seen").get<std::uint64_t>(),
                      static_cast<schema::Action>(action),
                      static_cast<TripPhase>(phase),
                      trip.at("rule").get<std::string>(),
                      trip.at("message").get<std::string>()};
  return true;
}

template <typename Process>
json processes_to_json(const std::vector<Process>& processes) {
  json list = json::array();
  for (const Process& process : processes) list.push_back(process.to_json());
  return list;
}

template <typename Stream>
json streams_to_json(const std::vector<Stream>& streams) {
  json list = json::array();
  for (const Stream& stream : streams)
    list.push_back({{"head", watched_to_json(stream.watched)}, {"state", stream.to_json()}});
  return list;
}

template <typename Stream>
bool restore_streams(const json& list, std::vector<Stream>& streams) {
  if (list.size() != streams.size()) return false;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (!restore_watched(list.at(i).at("head"), streams[i].watched)) return false;
    streams[i].restore(list.at(i).at("state"));
  }
  return true;
}

schema::Error damaged(const std::string& what) {
  return {schema::ErrorCode::corrupt, "the stored canary state is damaged: " + what, "stream_state", nullptr};
}

}  // namespace

json RateStream::to_json() const {
  return {{"starts", starts_},
          {"rate", processes_to_json(rate_)},
          {"label", processes_to_json(label_)},
          {"blocks", processes_to_json(blocks_)},
          {"signs", processes_to_json(signs_)},
          {"open_block",
           {open_index_, open_.candidate, open_.incumbent, open_.failed_candidate, open_.failed_incumbent}},
          {"difference", processes_to_json(difference_)},
          {"counts",
           {counts_.all_keys, counts_.keys, counts_.failed_keys, counts_.failures, counts_.candidate_failures,
            counts_.skipped}},
          {"expected", counts_.expected_candidate},
          {"hours", hours_.to_json()}};
}

void RateStream::restore(const json& value) {
  value.at("starts").get_to(starts_);
  const json& counts = value.at("counts");
  std::uint64_t* const fields[] = {&counts_.all_keys,           &counts_.keys,
                                   &counts_.failed_keys,        &counts_.failures,
                                   &counts_.candidate_failures, &counts_.skipped};
  for (std::size_t i = 0; i < std::size(fields); ++i) counts.at(i).get_to(*fields[i]);
  value.at("expected").get_to(counts_.expected_candidate);
  if (value.contains("hours")) hours_.restore(value.at("hours"));
  rate_.clear();
  label_.clear();
  difference_.clear();
  const schema::Limits& limits = watched.clause.limits;
  for (const json& process : value.at("rate")) {
    rate_.push_back(FailureRateProcess::from_json(process, limits.max.value_or(1)));
  }
  for (const json& process : value.at("label")) {
    label_.push_back(LabelProcess::from_json(process, limits.max_ratio.value_or(1)));
  }
  if (value.contains("blocks")) {
    blocks_.clear();
    for (const json& process : value.at("blocks"))
      blocks_.push_back(BlockProcess::from_json(process, limits.max_ratio.value_or(1)));
    const json& open = value.at("open_block");
    open.at(0).get_to(open_index_);
    std::uint64_t* const counted[] = {&open_.candidate, &open_.incumbent, &open_.failed_candidate,
                                      &open_.failed_incumbent};
    for (std::size_t i = 0; i < std::size(counted); ++i) open.at(i + 1).get_to(*counted[i]);
  }
  while (blocks_.size() < label_.size()) blocks_.emplace_back(limits.max_ratio.value_or(1));
  if (value.contains("signs")) {
    signs_.clear();
    for (const json& process : value.at("signs"))
      signs_.push_back(SignProcess::from_json(process, levels_.score_inflation));
  }
  for (const json& process : value.at("difference")) {
    difference_.push_back(
        RateDifferenceProcess::from_json(process, limits.max_delta.value_or(1), levels_.alpha_harm));
  }
}

json LatencyStream::to_json() const {
  json list = json::array();
  const auto arm = [&](const Arm& one) { return quantile_ ? one.quantiles.to_json() : one.mean.to_json(); };
  for (const auto& [stratum, arms] : values_) {
    list.push_back(
        {stratum, arm(arms[0]), arm(arms[1]), arms[0].repeated.to_json(), arms[1].repeated.to_json()});
  }
  return {{"strata", std::move(list)},
          {"skipped", skipped_},
          {"answers", answers_},
          {"wander", {wander_.excess, wander_.window_s}}};
}

void LatencyStream::restore(const json& value) {
  values_.clear();
  value.at("skipped").get_to(skipped_);
  if (value.contains("answers")) {
    value.at("answers").get_to(answers_);
    value.at("wander").at(0).get_to(wander_.excess);
    value.at("wander").at(1).get_to(wander_.window_s);
  }
  for (const json& entry : value.at("strata")) {
    auto& arms = values_[entry.at(0).get<std::uint32_t>()];
    for (std::size_t i = 0; i < arms.size(); ++i) {
      if (quantile_) {
        arms[i].quantiles = QuantileSequence::from_json(entry.at(i + 1));
      } else {
        arms[i].mean = LogMeanSequence::from_json(entry.at(i + 1));
      }
      // An earlier version counted each key once.
      if (entry.size() > 3) arms[i].repeated = RepeatedKeys::from_json(entry.at(i + 3));
    }
  }
}

json SignalStream::to_json() const {
  return {looks, last_clean};
}

void SignalStream::restore(const json& value) {
  value.at(0).get_to(looks);
  value.at(1).get_to(last_clean);
}

std::string CanaryState::serialise() const {
  const Impl& s = *impl_;
  const json value{{"version", kStateVersion},
                   {"contract", s.contract_digest},
                   {"attempt", s.settings.attempt},
                   {"seed", s.settings.seed},
                   {"max_keys", s.settings.max_keys},
                   {"block_us", s.levels.block_us},
                   {"incumbent", s.incumbent.to_json()},
                   {"incumbent_latency", s.incumbent_latency.to_json()},
                   {"candidate", s.candidate.to_json()},
                   {"dependent", s.dependent},
                   {"ratio_plan", {s.ratio_plan.labels, s.ratio_plan.signs, s.levels.score_inflation}},
                   {"started", s.started},
                   {"rates", streams_to_json(s.rates)},
                   {"latencies", streams_to_json(s.latencies)},
                   {"signals", streams_to_json(s.signals)},
                   {"found", s.found},
                   {"found_full", s.found_full},
                   {"noticed", s.noticed},
                   {"windows_read", s.windows_read},
                   {"split", s.split.to_json()},
                   {"keys", keys_to_text(s.keys)},
                   {"origin_us", s.origin_us},
                   {"windows", s.windows},
                   {"counts",
                    {s.exposed_requests, s.exposed_keys, s.keys_in_step, s.uncounted_keys,
                     s.failed_keys_candidate, s.failed_requests_candidate, s.failed_requests_incumbent}},
                   {"first_failure_us", s.first_failure_us}};
  return value.dump();
}

namespace {

void read_counts(const json& counts, std::initializer_list<std::uint64_t*> into) {
  std::size_t i = 0;
  for (std::uint64_t* const field : into) counts.at(i++).get_to(*field);
}

}  // namespace

void CanaryState::Impl::restore_histories(const json& value, int version) {
  ratio_plan = {.labels = true, .signs = false};
  if (version < kFirstVersionWithBlocks) return;
  incumbent = FailureHistory::from_json(value.at("incumbent"));
  candidate = FailureHistory::from_json(value.at("candidate"));
  value.at("dependent").get_to(dependent);
  if (version < kFirstVersionWithSigns) return;
  // Version 5 had a second reason for which single failures no longer count.
  if (version == kFirstVersionWithSigns) dependent = dependent || value.at("wanders").get<bool>();
  incumbent_latency = LatencyHistory::from_json(value.at("incumbent_latency"));
  const json& plan = value.at("ratio_plan");
  plan.at(0).get_to(ratio_plan.labels);
  plan.at(1).get_to(ratio_plan.signs);
}

schema::Result<CanaryState> CanaryState::deserialise(const schema::Contract& contract,
                                                     std::string_view text) {
  try {
    const json value = json::parse(text);
    const int version = value.at("version").get<int>();
    if (version < kFirstReadableVersion || version > kStateVersion) {
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
    const CanarySettings settings{value.at("attempt").get<std::uint32_t>(),
                                  value.at("seed").get<std::uint64_t>(),
                                  value.at("max_keys").get<std::size_t>(),
                                  {},
                                  {}};
    const bool has_blocks = version >= kFirstVersionWithBlocks;
    const std::int64_t block_us = has_blocks ? value.at("block_us").get<std::int64_t>() : 0;
    if (has_blocks && block_us <= 0) return std::unexpected(damaged("a block of time has no length"));
    const double score_inflation =
        version >= kFirstVersionWithSigns ? value.at("ratio_plan").at(2).get<double>() : 0;
    auto state =
        has_blocks ? make(contract, settings, block_us, score_inflation) : create(contract, settings);
    if (!state) return state;
    Impl& s = *state->impl_;
    s.restore_histories(value, version);
    value.at("started").get_to(s.started);
    for (const auto& where : value.at("found").get<std::vector<schema::SliceWhere>>()) {
      if (s.found.size() < kMaxWatchedSlices) s.watch(where);
    }
    value.at("found_full").get_to(s.found_full);
    value.at("noticed").get_to(s.noticed);
    value.at("windows_read").get_to(s.windows_read);
    if (!restore_streams(value.at("rates"), s.rates) ||
        !restore_streams(value.at("latencies"), s.latencies) ||
        !restore_streams(value.at("signals"), s.signals)) {
      return std::unexpected(damaged("its clauses are not those of the contract"));
    }
    s.split = SplitGuard::from_json(value.at("split"));
    if (!keys_from_text(value.at("keys").get_ref<const std::string&>(), version >= kFirstVersionWithPeriods,
                        s.keys)) {
      return std::unexpected(damaged("its set of keys cannot be read"));
    }
    if (version >= kFirstVersionWithPeriods) value.at("origin_us").get_to(s.origin_us);
    value.at("windows").get_to(s.windows);
    read_counts(value.at("counts"),
                {&s.exposed_requests, &s.exposed_keys, &s.keys_in_step, &s.uncounted_keys,
                 &s.failed_keys_candidate, &s.failed_requests_candidate, &s.failed_requests_incumbent});
    value.at("first_failure_us").get_to(s.first_failure_us);
    return state;
  } catch (const json::exception& error) {
    return std::unexpected(damaged(error.what()));
  }
}

}  // namespace driftgate::stages
