#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stages/guard/rescore_watch.hpp"

namespace driftgate::stages {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr std::size_t kMostWatches = 65'536;

std::unexpected<schema::Error> damaged(const std::string& what) {
  return schema::fail(schema::ErrorCode::corrupt, "the stored state of rescored answers is damaged: " + what);
}

}  // namespace

json RescoreWatch::to_json() const {
  json watches = json::array();
  for (const Watch& watch : watches_) {
    watches.push_back({{"clause", watch.clause.address()},
                       {"where", watch.where},
                       {"role", schema::to_string(watch.role)},
                       {"part", watch.part},
                       {"detector", watch.detector.to_json()},
                       {"figures", {watch.units, watch.sum}},
                       {"newest_us", watch.newest_us},
                       {"alarming", watch.alarming}});
  }
  return {{"version", kVersion},
          {"contract", contract_digest_},
          {"mean_time_us", mean_time_us_},
          {"share", share_},
          {"values", values_},
          {"watches", std::move(watches)},
          {"day", day_},
          {"keys", keys_},
          {"counts", {answers_, filtered_}}};
}

schema::Result<RescoreWatch> RescoreWatch::from_json(const schema::Contract& contract, const json& value) {
  try {
    if (value.at("version").get<int>() != kVersion) {
      return schema::fail(
          schema::ErrorCode::unsupported,
          "the stored state of rescored answers is of another version: use the program that wrote it");
    }
    const auto digest = value.at("contract").get<std::string>();
    if (digest != contract.digest) {
      return schema::fail(
          schema::ErrorCode::conflict,
          fmt::format("the stored state of rescored answers belongs to contract {}, not to {}", digest,
                      contract.digest));
    }
    const double share = value.at("share").get<double>();
    if (!contract.guard || !(share > 0)) return damaged("it has no share of the false alarms");
    RescoreWatch watch(contract, share, 0);
    TRY(watch.restore(contract, value));
    return watch;
  } catch (const json::exception& error) {
    return damaged(error.what());
  }
}

schema::Result<void> RescoreWatch::restore(const schema::Contract& contract, const json& value) {
  value.at("mean_time_us").get_to(mean_time_us_);
  value.at("values").get_to(values_);
  value.at("day").get_to(day_);
  value.at("keys").get_to(keys_);
  value.at("counts").at(0).get_to(answers_);
  value.at("counts").at(1).get_to(filtered_);
  const json& watches = value.at("watches");
  const bool sound = mean_time_us_ > 0 && keys_.size() <= kMostOfDay && values_.size() <= kMostMonitored &&
                     watches.is_array() && watches.size() <= kMostWatches;
  if (!sound) return damaged("a number in it makes no sense");
  watches_.clear();
  for (const json& one : watches) {
    const auto address = one.at("clause").get<std::string>();
    const auto clause = std::ranges::find_if(
        contract.clauses, [&](const schema::Clause& other) { return other.address() == address; });
    const auto limit = clause == contract.clauses.end() ? std::nullopt : answer_limit(*clause, contract);
    const auto role = schema::slice_role_from_name(one.at("role").get<std::string>());
    const double part = one.at("part").get<double>();
    if (!limit || !role || !(part > 0 && part <= 1))
      return damaged("its clauses are not those of the contract");
    add_watch({*clause, *limit}, one.at("where").get<schema::SliceWhere>(), *role, part,
              one.at("newest_us").get<std::int64_t>());
    Watch& watch = watches_.back();
    watch.detector.restore(one.at("detector"));
    one.at("figures").at(0).get_to(watch.units);
    one.at("figures").at(1).get_to(watch.sum);
    one.at("alarming").get_to(watch.alarming);
  }
  return {};
}

}  // namespace driftgate::stages
