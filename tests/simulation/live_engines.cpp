#include "tests/simulation/live_law.hpp"

namespace driftgate::simulation::live {
namespace {

struct WanderLaw {
  Scales incumbent;
  Scales candidate;
  bool shared = false;
  bool latencies_too = true;
};

/// The failure rate of each engine, or of both at once, wanders; latencies may go with it, mildly.
class WanderingRates : public World {
 public:
  WanderingRates(std::uint64_t seed, double start_s, const Harm& harm, const WanderLaw& law)
      : World(seed, start_s, harm),
        wanders_{Wander(stream(seed, kEngines), law.incumbent),
                 Wander(stream(seed, kEngines + 1), law.candidate)},
        shared_(law.shared),
        latencies_too_(law.latencies_too) {}

 protected:
  void second(double /*at_s*/) override {
    wanders_[0].step();
    if (!shared_) wanders_[1].step();
  }

  Law law_of(const Visit& /*visit*/, Arm arm) override {
    const Wander& wander = wanders_[shared_ ? 0 : index(arm)];
    Law law;
    law.own_failures = kFailureRate * wander.factor();
    if (latencies_too_) law.slowness = wander.slowness();
    return law;
  }

 private:
  std::array<Wander, 2> wanders_;
  bool shared_;
  bool latencies_too_;
};

/// Each engine restarts every two hours or so, and is slow and fails for minutes until it is warm.
class WarmUps : public World {
 public:
  WarmUps(std::uint64_t seed, double start_s, const Harm& harm)
      : World(seed, start_s, harm),
        restarts_(
            episodes_of_each_arm(seed, start_s,
                                 {[](Noise& noise) { return noise.between(1.5 * kHour, 2.5 * kHour); },
                                  [](Noise& noise) { return noise.between(2 * kMinute, 6 * kMinute); }})) {}

 protected:
  Law law_of(const Visit& visit, Arm arm) override {
    Episodes& restart = restarts_[index(arm)];
    Law law;
    law.own_failures = 0.006;
    if (restart.active(visit.at_s)) {
      const double cold = 1 - restart.progress(visit.at_s);
      law.own_failures *= 1 + 40 * cold;
      law.slowness = 1 + 3 * cold;
    }
    return law;
  }

 private:
  std::array<Episodes, 2> restarts_;
};

/// Each engine stops now and then; who comes meanwhile waits until it goes on, and some run out of time.
/// About 1 request in 20 meets a stall, so that the 95th percentile of the latency lies where stalls begin.
class Stalls : public World {
 public:
  Stalls(std::uint64_t seed, double start_s, const Harm& harm)
      : World(seed, start_s, harm),
        stalls_(episodes_of_each_arm(seed, start_s,
                                     {[](Noise& noise) { return std::min(kHour, noise.pareto(20, 1.5)); },
                                      [](Noise& noise) { return noise.between(1, 5); }})) {}

 protected:
  Law law_of(const Visit& visit, Arm arm) override {
    Episodes& stall = stalls_[index(arm)];
    Law law;
    law.own_failures = 0.005;
    if (stall.active(visit.at_s)) {
      law.imposed_failures = 0.1;
      law.wait_ms = 1000 * stall.left_s(visit.at_s);
    }
    return law;
  }

 private:
  std::array<Episodes, 2> stalls_;
};

/// Each engine is down for 20 to 60 s every two hours on average, at random.
class Outages : public World {
 public:
  Outages(std::uint64_t seed, double start_s, const Harm& harm)
      : World(seed, start_s, harm),
        outages_(episodes_of_each_arm(seed, start_s,
                                      {[](Noise& noise) { return noise.exponential(2 * kHour); },
                                       [](Noise& noise) { return noise.between(20, 60); }})) {}

 protected:
  Law law_of(const Visit& visit, Arm arm) override {
    Law law;
    law.own_failures = 0.005;
    if (outages_[index(arm)].active(visit.at_s)) law.imposed_failures = 0.95;
    return law;
  }

 private:
  std::array<Episodes, 2> outages_;
};

/// Each engine is starved for minutes, twice an hour or so: its latencies and failures swell and abate
/// together.
class BrownOuts : public World {
 public:
  BrownOuts(std::uint64_t seed, double start_s, const Harm& harm)
      : World(seed, start_s, harm),
        brown_outs_(
            episodes_of_each_arm(seed, start_s,
                                 {[](Noise& noise) { return noise.exponential(kHour / 2); },
                                  [](Noise& noise) { return noise.between(kMinute, 5 * kMinute); }})) {}

 protected:
  Law law_of(const Visit& visit, Arm arm) override {
    Episodes& brown_out = brown_outs_[index(arm)];
    Law law;
    law.own_failures = 0.006;
    if (brown_out.active(visit.at_s)) {
      const double depth = brown_out.severity() * std::sin(std::numbers::pi * brown_out.progress(visit.at_s));
      law.own_failures *= 1 + 12 * depth;
      law.slowness = 1 + 2 * depth;
    }
    return law;
  }

 private:
  std::array<Episodes, 2> brown_outs_;
};

/// Whoever fails tries again, up to four times within seconds; a prompt that was the cause is likely to fail
/// again. A network outage now and then hits both arms, and the storm of retries after it loads both.
class RetryStorms : public World {
 public:
  RetryStorms(std::uint64_t seed, double start_s, const Harm& harm)
      : World(seed, start_s, harm),
        network_(stream(seed, kShared), start_s,
                 {[](Noise& noise) { return noise.exponential(2 * kHour); },
                  [](Noise& noise) { return noise.between(5, 20); }}) {}

 protected:
  void second(double at_s) override {
    down_ = network_.active(at_s);
    pressure_ += (retries_ - pressure_) / 10;
    retries_ = 0;
  }

  Law law_of(const Visit& visit, Arm /*arm*/) override {
    if (visit.count > 0) retries_ += 1;
    Law law;
    law.own_failures = 0.003 * (1 + pressure_ / 4);
    law.imposed_failures = down_ ? 0.9 : visit.trait;
    law.slowness = 1 + pressure_ / 20;
    return law;
  }

  void after(const Visit& visit, Arm /*arm*/, bool failed) override {
    if (!failed || visit.count >= 4 || !traffic().chance(0.9)) return;
    Visit retry = visit;
    retry.at_s += 0.5 + traffic().exponential(2);
    retry.trait = down_ ? 0 : 0.4;
    ++retry.count;
    put_off(retry);
  }

 private:
  Episodes network_;
  bool down_ = false;
  double retries_ = 0;   // In this second.
  double pressure_ = 0;  // Retries a second, of late.
};

/// Each failure of an engine makes others likelier for a minute or so: the probability is a floor plus a part
/// of the share that failed of late, so that the mean does not depend on how many requests an arm serves.
class BreedingFailures : public World {
 public:
  /// `bred`: the part of all failures that others have caused.
  BreedingFailures(std::uint64_t seed, double start_s, const Harm& harm, double bred)
      : World(seed, start_s, harm), bred_(bred) {}

 protected:
  Law law_of(const Visit& visit, Arm arm) override {
    Memory& memory = memories_[index(arm)];
    const double fade = std::exp(std::min(0.0, memory.at_s - visit.at_s) / kMinute);
    memory.at_s = visit.at_s;
    memory.requests *= fade;
    memory.failures *= fade;
    const double prior = kPrior * kFailureRate * failure_harm(arm);
    const double share = (memory.failures + prior) / (memory.requests + kPrior);
    Law law;
    law.own_failures = kFailureRate * (1 - bred_);
    law.imposed_failures = bred_ * share;
    return law;
  }

  void after(const Visit& /*visit*/, Arm arm, bool failed) override {
    Memory& memory = memories_[index(arm)];
    memory.requests += 1;
    memory.failures += failed ? 1 : 0;
  }

 private:
  double bred_;
  /// Requests that keep a single failure of an idle engine from being all that it remembers.
  static constexpr double kPrior = 60;
  struct Memory {
    double at_s = 0;
    double requests = 0;
    double failures = 0;
  };
  std::array<Memory, 2> memories_ = {};
};

constexpr Scales kRestless = {{{1, 0.4}, {5, 0.4}, {20, 0.5}}};
constexpr Scales kCalm = {{{1, 0.2}, {5, 0.2}, {20, 0.2}}};

}  // namespace

std::vector<LiveWorldKind> kinds_that_wander() {
  std::vector<LiveWorldKind> kinds;
  const auto add = [&](const char* name, double deviation, double minutes) {
    const Scales scales{{{minutes, deviation}, {1, 0}, {1, 0}}};
    kinds.push_back(kind<WanderingRates>(name, "The logarithm of each arm's failure rate wanders by itself.",
                                         true, WanderLaw{scales, scales, false, false}));
  };
  add("sd 0.5 on a scale of 1 min", 0.5, 1);
  add("sd 0.5 on a scale of 5 min", 0.5, 5);
  add("sd 0.5 on a scale of 10 min", 0.5, 10);
  add("sd 0.7 on a scale of 5 min", 0.7, 5);
  kinds.push_back(kind<BreedingFailures>("half of the failures are bred by others",
                                         "Each failure makes others likelier for a minute.", true, 0.5));
  return kinds;
}

std::vector<LiveWorldKind> kinds_of_engines() {
  return {
      kind<WanderingRates>("wander apart",
                           "The failure rate of each arm wanders by itself, log-normal on scales of 1, 5 "
                           "and 20 minutes, and latencies mildly with it.",
                           true, WanderLaw{kRestless, kRestless, false, true}),
      kind<WanderingRates>("wander together", "As wander apart, but both arms have one wander in common.",
                           true, WanderLaw{kRestless, kRestless, true, true}),
      kind<WarmUps>("warm-ups",
                    "Each arm restarts every two hours or so, and is slow and fails (from 25%) for 2 to 6 "
                    "minutes.",
                    true),
      kind<Stalls>("stalls", "Each arm stops for 1 to 5 s at heavy-tailed gaps, which 1 request in 20 meets.",
                   true),
      kind<Outages>("outages",
                    "Each arm is down for 20 to 60 s every two hours on average, and fails at 0.5% "
                    "otherwise.",
                    true),
      kind<BrownOuts>("brown-outs",
                      "For 1 to 5 minutes twice an hour, latencies and failures of an arm swell together.",
                      true),
      kind<RetryStorms>("retry storms",
                        "Failed requests are repeated up to four times within seconds, network outages hit "
                        "both arms every two hours, and retries load both.",
                        true),
      kind<BreedingFailures>("failures that breed",
                             "Each failure of an arm makes others likelier for a minute (85% of failures "
                             "are bred).",
                             true, 0.85),
      kind<WanderingRates>("restless candidate",
                           "The failure rate of the candidate wanders more than that of the incumbent, with "
                           "the same mean (more variance is arguably no harm; latencies stay the same).",
                           false, WanderLaw{kCalm, kRestless, false, false}),
  };
}

}  // namespace driftgate::simulation::live
