// The guard in front of users who return. A world is a population, and nothing of how the guard counts.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stages/canary/key_hours.hpp"
#include "stages/canary/key_periods.hpp"
#include "stages/guard/guard.hpp"
#include "stages/statistics/random.hpp"
#include "tests/simulation/figure.hpp"
#include "tests/simulation/guarded.hpp"

namespace driftgate::simulation {
namespace {

using stages::GuardState;
using stages::Random;

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::int64_t kHourUs = 3'600 * kSecondUs, kDayUs = 24 * kHourUs;
constexpr std::int64_t kStartUs = 20'000 * kDayUs;
constexpr double kPerSecond = 20;
constexpr int kMeanDays = 365;

constexpr const char* kExperiment = "returning users before the guard";
constexpr const char* kMethod = "e-detectors on one request of each key and hour";

/// Who uses a service, and how often what they ask for fails.
struct Users {
  const char* name;
  std::uint64_t count = 20'000;
  double heavy_requests =
      0;              ///< the share of requests that the heaviest hundredth of the users makes; 0: all alike
  double pareto = 0;  ///< users ask in proportion to a Pareto law of this shape; 0: they do not
  double heavy_fails = 1;  ///< how many times as often requests of that hundredth fail
  double load_swing = 0;   ///< of the number of requests within a day, by this part of it
};

/// The requests of a population, one after another.
class Crowd {
 public:
  Crowd(const Users& users, double rate, std::uint64_t seed, std::int64_t start_us)
      : users_(users), rate_(rate), random_(seed), salt_(stages::mix64(seed)), now_us_(start_us) {}

  void set_rate(double rate) { rate_ = rate; }
  [[nodiscard]] std::int64_t now_us() const { return now_us_; }

  stages::CanaryObservation next() {
    const double day =
        2 * std::numbers::pi * static_cast<double>(now_us_ % kDayUs) / static_cast<double>(kDayUs);
    const double load = kPerSecond * (1 + users_.load_swing * std::sin(day));
    now_us_ += static_cast<std::int64_t>(-std::log1p(-random_.uniform()) / load * 1e6);
    const std::uint64_t user = draw();
    stages::CanaryObservation seen;
    seen.key_hash = stages::mix64(user ^ salt_);
    seen.routed_us = now_us_;
    const double rate = std::min(1.0, rate_ * (user < heavy() ? users_.heavy_fails : 1));
    seen.outcome = random_.uniform() < rate ? stages::RequestOutcome::failed : stages::RequestOutcome::ok;
    return seen;
  }

 private:
  [[nodiscard]] std::uint64_t heavy() const { return users_.count / 100; }
  /// User 0 asks most.
  std::uint64_t draw() {
    if (users_.pareto > 0) {
      // The share of the first u of all users is u^(1 − 1/shape).
      const double rank = std::pow(random_.uniform(), users_.pareto / (users_.pareto - 1));
      return static_cast<std::uint64_t>(rank * static_cast<double>(users_.count));
    }
    if (users_.heavy_requests > 0 && random_.uniform() < users_.heavy_requests) return random_.below(heavy());
    return heavy() + random_.below(users_.count - heavy());
  }

  Users users_;
  double rate_;
  Random random_;
  std::uint64_t salt_;
  std::int64_t now_us_;
};

/// The guard after a canary of an hour on all of the crowd's traffic.
GuardState promoted(Crowd& crowd) {
  schema::Limits limits;
  limits.max_ratio = 1;
  stages::KeyPeriods keys;
  stages::KeyHours hours;
  const std::int64_t end_us = crowd.now_us() + kHourUs;
  while (crowd.now_us() < end_us) {
    const auto seen = crowd.next();
    if (keys.first(seen.key_hash, seen.routed_us))
      hours.observe(seen.key_hash, seen.outcome == stages::RequestOutcome::failed);
  }
  stages::Promoted promoted;
  promoted.keys = keys.take_new();
  promoted.rates.push_back({"runtime.errors",
                            {},
                            schema::SliceRole::corpus,
                            hours.keys(),
                            hours.periods(),
                            hours.failed(),
                            hours.upper(stages::kPromotedAlpha)});
  promoted.block_us = 12 * kSecondUs;
  return *GuardState::create(guarded(limits, kMeanDays * kDayUs), promoted, {crowd.now_us()});
}

/// The time of the first alarm before `end_us`, looked for every five seconds.
std::optional<std::int64_t> first_alarm(GuardState& guard, Crowd& crowd, std::int64_t end_us, double needed) {
  std::int64_t decide_us = 0;
  while (crowd.now_us() < end_us) {
    const auto seen = crowd.next();
    guard.observe(seen);
    if (seen.routed_us < decide_us) continue;
    decide_us = seen.routed_us + 5 * kSecondUs;
    if (guard.decide().verdicts.at(0).e_value.value_or(0) >= needed) return seen.routed_us;
  }
  return std::nullopt;
}

constexpr Users kAlike{"20,000 users alike"};
constexpr Users kHeavy{"1% of 20,000 users make 40%", 20'000, 0.4};
constexpr Users kHeavyFive{"1% of 20,000 users make 40% and fail five times as often", 20'000, 0.4, 0, 5};
constexpr Users kHeavyTen{"1% of 20,000 users make 40% and fail ten times as often", 20'000, 0.4, 0, 10};
constexpr Users kMany{"1% of 100,000 users make 40% and fail ten times as often", 100'000, 0.4, 0, 10};
constexpr Users kPareto{"20,000 users by a Pareto law of shape 1.2", 20'000, 0, 1.2, 1};
constexpr Users kDays{"20,000 users, load that falls and rises by half within a day", 20'000, 0.4, 0, 1, 0.5};

void false_alarms(const Effort& effort, Figures& out) {
  const bool full = effort.scale >= 0.2;
  const int days = full ? 7 : 1;
  const std::uint64_t runs = effort.runs(200);
  for (const Users& users : {kAlike, kHeavy, kHeavyFive, kHeavyTen, kMany, kPareto, kDays}) {
    std::uint64_t alarms = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      Crowd crowd(users, 0.01, stages::mix64(effort.seed * 6'700'417 + run), kStartUs + 14 * kHourUs);
      GuardState guard = promoted(crowd);
      alarms += first_alarm(guard, crowd, crowd.now_us() + days * kDayUs, 1) ? 1 : 0;
    }
    // What was promoted has an upper limit that is too low in so many of the promotions.
    const double bound = stages::kPromotedAlpha + static_cast<double>(days) / kMeanDays;
    out.push_back({kExperiment, kMethod, users.name,
                   full ? "false alarms in 7 days" : "false alarms in a day",
                   static_cast<double>(alarms) / static_cast<double>(runs), runs, bound, Claim::exact});
  }
}

struct Change {
  const Users& users;
  const char* name;
  double after;   ///< of the rate, which was 1%
  double most_s;  ///< claimed median in seconds; 0: none
};

void delays(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(200);
  constexpr double kNeeded = 1 / stages::kWholeShare;
  const Change changes[] = {{kAlike, "1% becomes 20%", 0.2, 90},
                            {kAlike, "1% becomes 5%", 0.05, 200},
                            {kAlike, "1% becomes 2%", 0.02, 1'800},
                            {kHeavy, "1% becomes 2%", 0.02, 0},
                            {kHeavyTen, "1% becomes 2%", 0.02, 7'200}};
  for (const Change& change : changes) {
    std::vector<double> seconds;
    for (std::uint64_t run = 0; run < runs; ++run) {
      const std::uint64_t seed = stages::mix64(effort.seed * 3'267'000'013 + run);
      Crowd crowd(change.users, 0.01, seed, kStartUs + static_cast<std::int64_t>(seed % kDayUs));
      GuardState guard = promoted(crowd);
      (void)first_alarm(guard, crowd, crowd.now_us() + 3 * kHourUs, kNeeded);
      crowd.set_rate(change.after);
      const std::int64_t changed_us = crowd.now_us();
      const std::int64_t alarm_us =
          first_alarm(guard, crowd, changed_us + kDayUs, kNeeded).value_or(changed_us + kDayUs);
      seconds.push_back(static_cast<double>(alarm_us - changed_us) * 1e-6);
    }
    const bool claimed = change.most_s > 0;
    out.push_back({kExperiment, kMethod, std::string(change.users.name) + ", " + change.name,
                   "seconds until the alarm (median)", median(std::move(seconds)), runs,
                   claimed ? std::optional(change.most_s) : std::nullopt,
                   claimed ? Claim::exact : Claim::figure});
  }
}

}  // namespace

void guard_users(const Effort& effort, Figures& out) {
  false_alarms(effort, out);
  delays(effort, out);
}

}  // namespace driftgate::simulation
