#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "stages/guard/guard.hpp"
#include "stages/guard/probe_watch.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"
#include "tests/simulation/figure.hpp"
#include "tests/simulation/guarded.hpp"

namespace driftgate::simulation {
namespace {

using stages::GuardState;
using stages::Random;

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::int64_t kDayUs = 86'400 * kSecondUs;
constexpr std::int64_t kYearUs = 365 * kDayUs;
constexpr std::int64_t kArmedUs = 20'000 * kDayUs;
constexpr std::int64_t kBlockUs = 12 * kSecondUs;
constexpr double kPerSecond = 20;
constexpr double kLimit = 0.0113;  ///< of a promoted rate of 1%
constexpr double kDetectors = 34;

constexpr const char* kLengths = "run length of the guard";
constexpr const char* kDelays = "delay of the guard";
constexpr const char* kProbes = "golden probes";

/// A share of failures that changes in the course of a day, and how many requests arrive.
struct Traffic {
  double rate = kLimit;      ///< of failures, on average
  double rate_swing = 0;     ///< by this part of it up and down each day
  double load_swing = 0;     ///< the same for requests per second
  double stall_every_s = 0;  ///< then everything fails for four seconds; 0: never
  double heavy = 0;          ///< share of requests that come from a thousand users
  double unlucky = 0;        ///< share of users that fail ten times as often as the others
};

/// The requests of one service, one after another.
class Service {
 public:
  Service(const Traffic& traffic, std::uint64_t seed) : traffic_(traffic), random_(seed) {
    if (traffic_.stall_every_s > 0) next_stall_us_ = now_us_ + wait_us(traffic_.stall_every_s);
  }

  stages::CanaryObservation next() {
    const double day =
        2 * std::numbers::pi * static_cast<double>(now_us_ % kDayUs) / static_cast<double>(kDayUs);
    now_us_ += wait_us(1 / (kPerSecond * (1 + traffic_.load_swing * std::sin(day))));
    stages::CanaryObservation seen;
    const bool heavy = random_.uniform() < traffic_.heavy;
    seen.key_hash = heavy ? stages::mix64(random_.below(1'000)) : random_.next();
    seen.routed_us = now_us_;
    seen.outcome = fails(seen.key_hash, day) ? stages::RequestOutcome::failed : stages::RequestOutcome::ok;
    return seen;
  }
  void set_rate(double rate) { traffic_.rate = rate; }

 private:
  std::int64_t wait_us(double mean_s) {
    return static_cast<std::int64_t>(-std::log1p(-random_.uniform()) * mean_s * 1e6);
  }
  bool fails(std::uint64_t key, double day) {
    if (next_stall_us_ > 0 && now_us_ >= next_stall_us_) {
      stalled_to_us_ = next_stall_us_ + 4 * kSecondUs;
      next_stall_us_ = stalled_to_us_ + wait_us(traffic_.stall_every_s);
    }
    if (now_us_ < stalled_to_us_) return true;
    double rate = traffic_.rate * (1 + traffic_.rate_swing * std::sin(day));
    if (traffic_.unlucky > 0) {
      const bool unlucky = static_cast<double>(stages::mix64(key) >> 11U) * 0x1.0p-53 < traffic_.unlucky;
      rate *= (unlucky ? 10 : 1) / (1 + 9 * traffic_.unlucky);
    }
    return random_.uniform() < rate;
  }

  Traffic traffic_;
  Random random_;
  std::int64_t now_us_ = kArmedUs, next_stall_us_ = 0, stalled_to_us_ = 0;
};

schema::Contract contract_of(std::int64_t mean_time_us) {
  schema::Limits limits;
  limits.max = kLimit;
  return guarded(limits, mean_time_us);
}

GuardState guard_of(const schema::Contract& contract, double limit) {
  stages::Promoted promoted;
  promoted.rates.push_back({"runtime.errors", {}, schema::SliceRole::corpus, 16'000, 16'000, 160, kLimit});
  promoted.block_us = kBlockUs;
  schema::Contract own = contract;
  own.clauses[0].limits.max = limit;
  return *GuardState::create(own, promoted, {kArmedUs});
}

/// Whether the guard alarms within `for_us`; one decision every five seconds.
bool alarms_within(GuardState& guard, Service& service, std::int64_t for_us) {
  std::int64_t decide_us = kArmedUs;
  for (;;) {
    const auto seen = service.next();
    if (seen.routed_us >= kArmedUs + for_us) return false;
    guard.observe(seen);
    if (seen.routed_us < decide_us) continue;
    decide_us = seen.routed_us + 5 * kSecondUs;
    if (!guard.decide().alarms.empty()) return true;
  }
}

struct World {
  const char* name;
  Traffic traffic;
  double limit;
  Claim claim;
  std::int64_t mean_time_us;  ///< of the guard
};

/// The promoted rate includes the stalls that the canary saw: four seconds of every 204.
constexpr double kWithStalls = kLimit + (1 - kLimit) * 4 / 204.0;

std::vector<World> worlds() {
  // A guard of three hours, so that false alarms can be counted: the guarantee does not depend on the length.
  const std::int64_t hours = 3 * 3'600 * kSecondUs;
  return {
      {"failures at the limit", {}, kLimit, Claim::exact, hours},
      {"users who fail ten times as often, users with a fifth of all requests",
       {.heavy = 0.2, .unlucky = 0.05},
       kLimit,
       Claim::exact,
       hours},
      {"load that falls and rises by half within a day, failures at the limit",
       {.load_swing = 0.5},
       kLimit,
       Claim::exact,
       2 * kDayUs},
      {"failures that rise and fall by 40% within a day, max_ratio 1.5",
       {.rate = 0.01, .rate_swing = 0.4, .load_swing = 0.5},
       1.5 * kLimit,
       Claim::exact,
       2 * kDayUs},
      {"failures that rise and fall by 40% within a day, max_ratio 1",
       {.rate = 0.01, .rate_swing = 0.4, .load_swing = 0.5},
       kLimit,
       Claim::figure,
       2 * kDayUs},
      {"stalls of 4 s every 200 s, promoted with them",
       {.stall_every_s = 200},
       kWithStalls,
       Claim::approximate,
       hours},
  };
}

void run_lengths(const Effort& effort, Figures& out) {
  for (const World& world : worlds()) {
    const bool long_one = world.mean_time_us > kDayUs;
    const std::uint64_t runs = effort.runs(long_one ? 200 : 2'000);
    const auto contract = contract_of(world.mean_time_us);
    std::uint64_t alarms = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      GuardState guard = guard_of(contract, world.limit);
      Service service(world.traffic, stages::mix64(effort.seed * 7'919 + run));
      alarms += alarms_within(guard, service, world.mean_time_us / 5) ? 1 : 0;
    }
    const bool claimed = world.claim != Claim::figure;
    out.push_back({kLengths, "e-detectors on one request of each key and hour", world.name,
                   "false alarms within a fifth of the stated mean time",
                   static_cast<double>(alarms) / static_cast<double>(runs), runs,
                   claimed ? std::optional(0.2) : std::nullopt, world.claim, "",
                   world.claim == Claim::approximate ? std::optional(0.25) : std::nullopt});
  }
}

struct Change {
  const char* name;
  double limit, before, after;
  double needed;         ///< value at which it alarms
  double stall_every_s;  ///< 0: nothing stalls
  double most_keys;      ///< claimed median; 0: none
};

/// Keys from the change to the alarm, in a guard with one false alarm a year and one decision every five
/// seconds, after 20,000 keys at the promoted rate.
double keys_to_alarm(const Change& change, std::uint64_t seed) {
  constexpr std::uint64_t kBefore = 20'000, kMost = 400'000;
  static const schema::Contract contract = contract_of(kYearUs);
  GuardState guard = guard_of(contract, change.limit);
  Service service({.rate = change.before, .stall_every_s = change.stall_every_s}, seed);
  for (std::uint64_t i = 0; i < kBefore; ++i) guard.observe(service.next());
  (void)guard.decide();
  service.set_rate(change.after);
  std::int64_t decide_us = 0;
  for (std::uint64_t i = 1; i <= kMost; ++i) {
    const auto seen = service.next();
    guard.observe(seen);
    if (seen.routed_us < decide_us) continue;
    decide_us = seen.routed_us + 5 * kSecondUs;
    if (guard.decide().verdicts[0].e_value.value_or(0) >= change.needed) return static_cast<double>(i);
  }
  return kMost;
}

void delays(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(1'000);
  constexpr double kWhole = 1 / stages::kWholeShare;
  const Change changes[] = {
      {"1% becomes 2%, one of 34 equal detectors", kLimit, 0.01, 0.02, kDetectors, 0, 7'000},
      {"1% becomes 3%, one of 34 equal detectors", kLimit, 0.01, 0.03, kDetectors, 0, 0},
      {"1% becomes 5%, one of 34 equal detectors", kLimit, 0.01, 0.05, kDetectors, 0, 0},
      {"1% becomes 2%, on all traffic beside 33 slices", kLimit, 0.01, 0.02, kWhole, 0, 0},
      {"1% becomes 5%, on all traffic beside 33 slices", kLimit, 0.01, 0.05, kWhole, 0, 0},
      {"1% becomes 100%, on all traffic beside 33 slices", kLimit, 0.01, 1, kWhole, 0, 2'400},
      {"1% becomes 2%, limit 1.7% (max_ratio 1.5)", 1.5 * kLimit, 0.01, 0.02, kWhole, 0, 0},
      {"1% becomes 3%, limit 1.7% (max_ratio 1.5)", 1.5 * kLimit, 0.01, 0.03, kWhole, 0, 0},
      {"0.1% becomes 0.3%, limit 0.15%", 0.0015, 0.001, 0.003, kWhole, 0, 0},
      {"1% becomes 2% among stalls of 4 s every hour", kLimit, 0.01, 0.02, kWhole, 3'600, 0}};
  for (const Change& change : changes) {
    std::vector<double> keys;
    for (std::uint64_t run = 0; run < runs; ++run)
      keys.push_back(keys_to_alarm(change, stages::mix64(effort.seed * 104'729 + run)));
    const bool claimed = change.most_keys > 0;
    out.push_back({kDelays, "e-detectors on one request of each key and hour", change.name,
                   "keys until the alarm (median)", median(keys), runs,
                   claimed ? std::optional(change.most_keys) : std::nullopt,
                   claimed ? Claim::exact : Claim::figure, ""});
  }
}

/// An engine with four tokens for each prompt, noise from the batch that a request came into, and what may
/// change.
struct Engine {
  Random random;
  double noise = 0, step = 0, flips = 0;

  stages::ProbeAnswer answer(std::size_t prompt) {
    stages::ProbeAnswer out;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint64_t hash = stages::mix64(prompt * 4 + i);
      const double own = static_cast<double>(hash >> 11U) * 0x1.0p-53;
      const double shift = step * (2 * static_cast<double>(stages::mix64(hash) >> 11U) * 0x1.0p-53 - 1);
      const double scatter = noise * stages::normal_quantile(std::clamp(random.uniform(), 1e-12, 1 - 1e-12));
      out.tokens.push_back(random.uniform() < flips ? "other" : "own");
      out.logprobs.push_back(-own + shift + scatter);
    }
    return out;
  }
};

struct Probing {
  const char* name;
  double noise, flips;  ///< of the promoted kernel
  double step;          ///< the largest change of a log-probability; 0: nothing changes
  double flips_after;
  double most_probes;  ///< claimed median; 0: none
};

void probes(const Effort& effort, Figures& out) {
  constexpr int kMost = 2'000;
  constexpr std::int64_t kEveryUs = 10 * kSecondUs;
  const std::uint64_t runs = effort.runs(400);
  const Probing cases[] = {
      {"an engine that repeats itself bit by bit, one silent step of fine-tuning (1e-4 nats)", 0, 0, 1e-4, 0,
       10},
      {"noise of 0.01 nats, another quantisation (0.1 nats)", 0.01, 0.005, 0.1, 0.02, 20},
      {"noise of 0.01 nats, another kernel flag (0.02 nats)", 0.01, 0.005, 0.02, 0.01, 0},
      {"noise of 0.01 nats, one silent step of fine-tuning (0.001 nats)", 0.01, 0.005, 0.001, 0.005, 0}};
  for (const Probing& probing : cases) {
    std::vector<double> asked;
    std::uint64_t found = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      const std::uint64_t seed = stages::mix64(effort.seed * 15'485'863 + run);
      stages::ProbeWatch watch(64, kYearUs, seed);
      Engine engine{.random = Random(seed + 1), .noise = probing.noise, .flips = probing.flips};
      std::int64_t now_us = kArmedUs;
      while (!watch.armed()) (void)watch.observe(engine.answer(watch.next()), now_us += kEveryUs);
      engine.step = probing.step;
      engine.flips = probing.flips_after;
      int count = 0;
      while (count < kMost && watch.value() < 1 / stages::kProbeShare) {
        (void)watch.observe(engine.answer(watch.next()), now_us += kEveryUs);
        ++count;
      }
      asked.push_back(count);
      found += count < kMost ? 1 : 0;
    }
    const bool claimed = probing.most_probes > 0;
    out.push_back({kProbes, "64 prompts, one every 10 s, one false alarm a year", probing.name,
                   "found within 2,000 probes", static_cast<double>(found) / static_cast<double>(runs), runs,
                   claimed ? std::optional(0.95) : std::nullopt, claimed ? Claim::at_least : Claim::figure,
                   ""});
    out.push_back({kProbes, "64 prompts, one every 10 s, one false alarm a year", probing.name,
                   "probes until the alarm (median)", median(asked), runs,
                   claimed ? std::optional(probing.most_probes) : std::nullopt,
                   claimed ? Claim::exact : Claim::figure, ""});
  }
}

/// The reference and the floor are drawn anew in each run, so that their own error is part of what is
/// counted.
void quiet_probes(const Effort& effort, Figures& out) {
  constexpr int kProbesInMean = 5'000;
  constexpr std::int64_t kEveryUs = 10 * kSecondUs;
  const std::uint64_t runs = effort.runs(2'000);
  std::uint64_t alarms = 0;
  for (std::uint64_t run = 0; run < runs; ++run) {
    const std::uint64_t seed = stages::mix64(effort.seed * 32'452'843 + run);
    stages::ProbeWatch watch(64, kProbesInMean * kEveryUs, seed);
    Engine engine{.random = Random(seed + 1), .noise = 0.01, .flips = 0.005};
    std::int64_t now_us = kArmedUs;
    while (!watch.armed()) (void)watch.observe(engine.answer(watch.next()), now_us += kEveryUs);
    bool alarm = false;
    for (int i = 0; i < kProbesInMean / 5 && !alarm; ++i) {
      (void)watch.observe(engine.answer(watch.next()), now_us += kEveryUs);
      alarm = watch.value() >= 1;
    }
    alarms += alarm ? 1 : 0;
  }
  out.push_back({kProbes, "64 prompts against the measured floor", "noise of 0.01 nats, nothing changes",
                 "false alarms within a fifth of the stated mean time",
                 static_cast<double>(alarms) / static_cast<double>(runs), runs, 0.2, Claim::approximate, "",
                 0.25});
}

}  // namespace

void guard_run_lengths(const Effort& effort, Figures& out) {
  run_lengths(effort, out);
}

void guard_delays(const Effort& effort, Figures& out) {
  delays(effort, out);
}

void golden_probes(const Effort& effort, Figures& out) {
  quiet_probes(effort, out);
  probes(effort, out);
}

}  // namespace driftgate::simulation
