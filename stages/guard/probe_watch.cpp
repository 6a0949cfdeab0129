#include "stages/guard/probe_watch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/mean_test.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxPrompts = 1'024;
constexpr int kDetectors = 3;

/// A distance as a value in [0, 1]; without any noise in the floor each distance is all there is.
double scaled(double distance, double largest) {
  if (largest <= 0) return distance > 0 ? 1 : 0;
  return std::min(1.0, distance / (2 * largest));
}

json answer_to_json(const ProbeAnswer& answer) {
  json logprobs = json::array();
  for (const double value : answer.logprobs) logprobs.push_back(std::isfinite(value) ? json(value) : json());
  return {{"tokens", answer.tokens}, {"logprobs", std::move(logprobs)}};
}

ProbeAnswer answer_from_json(const json& value) {
  ProbeAnswer answer;
  value.at("tokens").get_to(answer.tokens);
  for (const json& one : value.at("logprobs")) {
    answer.logprobs.push_back(one.is_null() ? std::numeric_limits<double>::quiet_NaN() : one.get<double>());
  }
  return answer;
}

}  // namespace

std::optional<ProbeDistance> probe_distance(const ProbeAnswer& before, const ProbeAnswer& now) {
  const std::size_t both =
      std::min({before.tokens.size(), now.tokens.size(), before.logprobs.size(), now.logprobs.size()});
  ProbeDistance distance;
  double sum = 0;
  std::size_t compared = 0;
  for (std::size_t i = 0; i < both && !distance.flipped; ++i) {
    distance.flipped = before.tokens[i] != now.tokens[i];
    const double difference = std::abs(before.logprobs[i] - now.logprobs[i]);
    if (!std::isfinite(difference)) continue;
    sum += difference;
    ++compared;
  }
  if (compared == 0) return std::nullopt;
  distance.flipped = distance.flipped || before.tokens.size() != now.tokens.size();
  distance.logprob = sum / static_cast<double>(compared);
  return distance;
}

ProbeWatch::ProbeWatch(std::size_t prompts, std::int64_t mean_time_us, std::uint64_t seed)
    : mean_time_us_(mean_time_us), seed_(seed), reference_(prompts), floor_(prompts) {}

std::size_t ProbeWatch::next() const {
  const std::uint64_t number = armed() ? mix64(seed_ ^ mix64(tries_)) : asked_;
  return static_cast<std::size_t>(number % reference_.size());
}

bool ProbeWatch::observe(const ProbeAnswer& answer, std::int64_t asked_us) {
  const std::size_t prompt = next();
  if (armed()) ++tries_;
  if (asked_ < reference_.size()) {
    if (!probe_distance(answer, answer)) return false;
    reference_[prompt] = answer;
    ++asked_;
    return true;
  }
  const auto distance = probe_distance(reference_[prompt], answer);
  if (!distance) return false;
  ++asked_;
  if (!armed()) {
    add_floor(prompt, *distance, asked_us);
    return true;
  }
  Armed& now = *armed_;
  const bool exceeds = distance->logprob > now.largest;
  const double start = start_mass(now.newest_us, asked_us, mean_time_us_);
  now.exceeding.observe(exceeds ? 1 : 0, start, asked_us);
  now.shifted.observe(scaled(distance->logprob, now.largest), start, asked_us);
  now.flipped.observe(distance->flipped ? 1 : 0, start, asked_us);
  now.newest_us = std::max(now.newest_us, asked_us);
  now.exceeded += static_cast<std::uint64_t>(exceeds);
  now.flips += static_cast<std::uint64_t>(distance->flipped);
  ++now.compared;
  now.total += distance->logprob;
  now.newest = distance->logprob;
  return true;
}

void ProbeWatch::add_floor(std::size_t prompt, const ProbeDistance& distance, std::int64_t asked_us) {
  floor_[prompt].push_back(distance.logprob);
  floor_flips_ += static_cast<std::uint64_t>(distance.flipped);
  if (asked_ >= reference_.size() * (1 + kFloorRounds)) arm(asked_us);
}

/// The largest of N distances is exceeded by at most 1 − α^{1/N} of them, with probability 1 − α. The prompts
/// are the independent units of the mean.
void ProbeWatch::arm(std::int64_t now_us) {
  double largest = 0, total = 0;
  std::uint64_t count = 0;
  for (const std::vector<double>& distances : floor_) {
    for (const double distance : distances) {
      largest = std::max(largest, distance);
      total += distance;
      ++count;
    }
  }
  std::vector<ClusterSum> prompts;
  for (const std::vector<double>& distances : floor_) {
    ClusterSum sum;
    for (const double distance : distances) {
      sum.n += 1;
      sum.sum += scaled(distance, largest);
    }
    prompts.push_back(sum);
  }
  count_once(prompts);
  const MeanTest mean = betting_mean(prompts, 0.5, {}, kFloorAlpha, seed_);
  armed_ = make_armed(largest, total / static_cast<double>(count), zero_event_bound(count, kFloorAlpha),
                      mean.upper.value_or(1), clopper_pearson_upper(floor_flips_, count, kFloorAlpha));
  armed_->newest_us = now_us;
}

ProbeWatch::Armed ProbeWatch::make_armed(double largest, double mean, double exceeding, double shifted,
                                         double flipped) const {
  return {.largest = largest,
          .mean = mean,
          .exceeding_limit = exceeding,
          .shifted_limit = shifted,
          .flipped_limit = flipped,
          .exceeding = EDetector(exceeding, event_bets(exceeding)),
          .shifted = EDetector(shifted, share_bets()),
          .flipped = EDetector(flipped, event_bets(flipped))};
}

bool ProbeWatch::is_within_floor(std::size_t prompt, const ProbeAnswer& answer) const {
  if (!armed_ || prompt >= reference_.size()) return false;
  const auto distance = probe_distance(reference_[prompt], answer);
  return distance && !distance->flipped && distance->logprob <= armed_->largest;
}

double ProbeWatch::value() const {
  if (!armed_) return 0;
  return (armed_->exceeding.sum() + armed_->shifted.sum() + armed_->flipped.sum()) / kDetectors;
}

ProbeWatch::Figures ProbeWatch::figures() const {
  Figures figures;
  figures.asked = asked_;
  if (!armed_) return figures;
  const Armed& now = *armed_;
  figures.compared = now.compared;
  figures.exceeding = now.exceeded;
  figures.flipped = now.flips;
  figures.mean_distance = now.compared == 0 ? 0 : now.total / static_cast<double>(now.compared);
  figures.newest_distance = now.newest;
  figures.floor_largest = now.largest;
  figures.floor_mean = now.mean;
  figures.exceeding_value = now.exceeding.sum();
  figures.shifted_value = now.shifted.sum();
  figures.flipped_value = now.flipped.sum();
  const EDetector* leading = &now.exceeding;
  for (const EDetector* other : {&now.shifted, &now.flipped}) {
    if (other->largest() > leading->largest()) leading = other;
  }
  figures.since_us = leading->change().since_us;
  return figures;
}

json ProbeWatch::to_json() const {
  json reference = json::array();
  for (const ProbeAnswer& answer : reference_) reference.push_back(answer_to_json(answer));
  json value{{"mean_time_us", mean_time_us_},
             {"seed", seed_},
             {"asked", asked_},
             {"tries", tries_},
             {"floor", floor_},
             {"floor_flips", floor_flips_},
             {"reference", std::move(reference)}};
  if (!armed_) return value;
  const Armed& now = *armed_;
  value["armed"] = {{"largest", now.largest},
                    {"mean", now.mean},
                    {"limits", {now.exceeding_limit, now.shifted_limit, now.flipped_limit}},
                    {"exceeding", now.exceeding.to_json()},
                    {"shifted", now.shifted.to_json()},
                    {"flipped", now.flipped.to_json()},
                    {"newest_us", now.newest_us},
                    {"counts", {now.exceeded, now.flips, now.compared}},
                    {"total", now.total},
                    {"newest", now.newest}};
  return value;
}

schema::Result<ProbeWatch> ProbeWatch::from_json(const json& value) {
  const auto damaged = [](const std::string& what) {
    return schema::fail(schema::ErrorCode::corrupt,
                        "the stored state of the golden probes is damaged: " + what);
  };
  try {
    const json& reference = value.at("reference");
    if (!reference.is_array() || reference.empty() || reference.size() > kMaxPrompts)
      return damaged("it has no prompts, or too many");
    ProbeWatch watch(reference.size(), value.at("mean_time_us").get<std::int64_t>(),
                     value.at("seed").get<std::uint64_t>());
    if (watch.mean_time_us_ <= 0) return damaged("its mean time is not positive");
    for (std::size_t i = 0; i < reference.size(); ++i) watch.reference_[i] = answer_from_json(reference[i]);
    value.at("asked").get_to(watch.asked_);
    value.at("tries").get_to(watch.tries_);
    value.at("floor").get_to(watch.floor_);
    value.at("floor_flips").get_to(watch.floor_flips_);
    if (watch.floor_.size() != reference.size()) return damaged("its floor is of other prompts");
    if (!value.contains("armed")) return watch;
    const json& armed = value.at("armed");
    const json& limits = armed.at("limits");
    watch.armed_ =
        watch.make_armed(armed.at("largest").get<double>(), armed.at("mean").get<double>(),
                         limits.at(0).get<double>(), limits.at(1).get<double>(), limits.at(2).get<double>());
    Armed& now = *watch.armed_;
    now.exceeding.restore(armed.at("exceeding"));
    now.shifted.restore(armed.at("shifted"));
    now.flipped.restore(armed.at("flipped"));
    armed.at("newest_us").get_to(now.newest_us);
    armed.at("counts").at(0).get_to(now.exceeded);
    armed.at("counts").at(1).get_to(now.flips);
    armed.at("counts").at(2).get_to(now.compared);
    armed.at("total").get_to(now.total);
    armed.at("newest").get_to(now.newest);
    return watch;
  } catch (const json::exception& error) {
    return damaged(error.what());
  }
}

}  // namespace driftgate::stages
