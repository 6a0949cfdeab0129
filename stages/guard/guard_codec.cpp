#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stages/guard/guard_impl.hpp"

namespace driftgate::stages {
namespace {

using nlohmann::json;

constexpr int kGuardVersion = 2;
/// Version 1 counted each key once a day.
constexpr int kFirstReadableVersion = 1, kFirstVersionWithPeriods = 2;
constexpr std::size_t kMostWatches = 65'536;

std::unexpected<schema::Error> damaged(const std::string& what) {
  return schema::fail(schema::ErrorCode::corrupt, "the stored state of the guard is damaged: " + what,
                      "guard");
}

json thresholds_to_json(const std::map<std::uint32_t, double>& thresholds) {
  json list = json::array();
  for (const auto& [stratum, threshold] : thresholds) list.push_back({stratum, threshold});
  return list;
}

json plan_to_json(const WatchPlan& plan) {
  return {
      {"clause", plan.clause.address()},
      {"where", plan.where},
      {"role", schema::to_string(plan.role)},
      {"limit", plan.limit},
      {"share", plan.share},
      {"thresholds_ms", thresholds_to_json(plan.thresholds_ms)},
      {"promoted", {plan.promoted_keys, plan.promoted_failed, plan.promoted_upper, plan.promoted_periods}}};
}

/// The plan of a stored watch; std::nullopt if the contract has no such clause or a number makes no sense.
std::optional<WatchPlan> plan_from_json(const json& value, const schema::Contract& contract) {
  const auto address = value.at("clause").get<std::string>();
  const auto clause = std::ranges::find_if(
      contract.clauses, [&](const schema::Clause& one) { return one.address() == address; });
  const auto role = schema::slice_role_from_name(value.at("role").get<std::string>());
  if (clause == contract.clauses.end() || !role) return std::nullopt;
  WatchPlan plan{.clause = *clause, .where = {}, .role = *role, .thresholds_ms = {}};
  value.at("where").get_to(plan.where);
  value.at("limit").get_to(plan.limit);
  value.at("share").get_to(plan.share);
  for (const json& one : value.at("thresholds_ms"))
    plan.thresholds_ms[one.at(0).get<std::uint32_t>()] = one.at(1).get<double>();
  const json& promoted = value.at("promoted");
  promoted.at(0).get_to(plan.promoted_keys);
  promoted.at(1).get_to(plan.promoted_failed);
  promoted.at(2).get_to(plan.promoted_upper);
  plan.promoted_periods = promoted.size() > 3 ? promoted.at(3).get<std::uint64_t>() : plan.promoted_keys;
  const bool sound = plan.limit >= 0 && plan.limit < 1 && plan.share > 0 && plan.share <= 1 &&
                     std::holds_alternative<schema::MetricSubject>(plan.clause.subject);
  return sound ? std::optional(std::move(plan)) : std::nullopt;
}

constexpr std::size_t kNumberBytes = 8, kKeyBytes = 2 * kNumberBytes;

void append_number(std::string& bytes, std::uint64_t number) {
  for (std::size_t i = 0; i < kNumberBytes; ++i) bytes += static_cast<char>((number >> (8 * i)) & 0xFFU);
}

std::uint64_t take_number(std::string_view& bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < kNumberBytes; ++i)
    number |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  bytes.remove_prefix(kNumberBytes);
  return number;
}

}  // namespace

std::string counted_keys_to_bytes(std::span<const CountedKey> keys) {
  std::string bytes;
  bytes.reserve(keys.size() * kKeyBytes);
  for (const CountedKey& one : keys) {
    append_number(bytes, one.key);
    append_number(bytes, static_cast<std::uint64_t>(one.period));
  }
  return bytes;
}

std::optional<std::vector<CountedKey>> counted_keys_from_bytes(std::string_view bytes) {
  if (bytes.size() % kKeyBytes != 0) return std::nullopt;
  std::vector<CountedKey> keys;
  keys.reserve(bytes.size() / kKeyBytes);
  while (!bytes.empty()) {
    const std::uint64_t key = take_number(bytes);
    keys.push_back({key, static_cast<std::int64_t>(take_number(bytes))});
  }
  return keys;
}

std::string GuardState::serialise() const {
  const Impl& s = *impl_;
  json watches = json::array();
  for (const Impl::Watch& watch : s.watches) {
    watches.push_back(
        {{"plan", plan_to_json(watch.plan)}, {"state", watch.rate.to_json()}, {"alarming", watch.alarming}});
  }
  const json value{{"version", kGuardVersion},
                   {"contract", s.contract_digest},
                   {"mean_time_us", s.mean_time_us},
                   {"block_us", s.block_us},
                   {"armed_us", s.armed_us},
                   {"max_keys", s.max_keys},
                   {"probe_share", s.probe_share},
                   {"rescoring_share", s.rescoring_share},
                   {"watches", std::move(watches)},
                   {"periods", {s.keys.newest_us(), s.keys.swept_us(), s.keys.halvings()}},
                   {"dispersion", s.dispersion.to_json()},
                   {"dependent_until_us", s.dependent_until_us},
                   {"newest_us", s.newest_us},
                   {"seen", s.seen}};
  return value.dump();
}

schema::Result<GuardState> GuardState::deserialise(const schema::Contract& contract, std::string_view text,
                                                   std::string_view keys) {
  try {
    const json value = json::parse(text);
    const int version = value.at("version").get<int>();
    if (version < kFirstReadableVersion || version > kGuardVersion) {
      return schema::fail(
          schema::ErrorCode::unsupported,
          "the stored state of the guard is of another version: use the program that wrote it", "guard");
    }
    if (value.at("contract").get<std::string>() != contract.digest) {
      return schema::fail(schema::ErrorCode::conflict,
                          fmt::format("the stored state of the guard belongs to contract {}, not to {}",
                                      value.at("contract").get<std::string>(), contract.digest),
                          "guard");
    }
    auto impl = std::make_unique<Impl>();
    impl->contract_digest = contract.digest;
    impl->escalation = contract.escalation;
    impl->prompt_bounds = contract.slices.prompt_length_bounds;
    std::ranges::sort(impl->prompt_bounds);
    value.at("mean_time_us").get_to(impl->mean_time_us);
    value.at("block_us").get_to(impl->block_us);
    value.at("armed_us").get_to(impl->armed_us);
    value.at("max_keys").get_to(impl->max_keys);
    value.at("probe_share").get_to(impl->probe_share);
    value.at("rescoring_share").get_to(impl->rescoring_share);
    if (impl->mean_time_us <= 0 || impl->block_us <= 0) return damaged("a length of time is not positive");
    const json& watches = value.at("watches");
    if (!watches.is_array() || watches.size() > kMostWatches) return damaged("it has no list of watches");
    for (const json& one : watches) {
      auto plan = plan_from_json(one.at("plan"), contract);
      if (!plan) return damaged("its clauses are not those of the contract");
      impl->add_watch(std::move(*plan));
      impl->watches.back().rate.restore(one.at("state"));
      one.at("alarming").get_to(impl->watches.back().alarming);
    }
    impl->keys = KeyPeriods(impl->max_keys);
    if (version >= kFirstVersionWithPeriods) {
      const auto counted = counted_keys_from_bytes(keys);
      if (!counted) return damaged("its keys cannot be read");
      const json& periods = value.at("periods");
      impl->keys.resume(periods.at(0).get<std::int64_t>(), periods.at(1).get<std::int64_t>(),
                        periods.at(2).get<std::uint32_t>(), *counted);
    }
    impl->dispersion = DispersionProcess::from_json(value.at("dispersion"));
    value.at("dependent_until_us").get_to(impl->dependent_until_us);
    value.at("newest_us").get_to(impl->newest_us);
    value.at("seen").get_to(impl->seen);
    return GuardState(std::move(impl));
  } catch (const json::exception& error) {
    return damaged(error.what());
  }
}

}  // namespace driftgate::stages
