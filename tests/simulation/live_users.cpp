#include <iterator>

#include "tests/simulation/live_law.hpp"

namespace driftgate::simulation::live {
namespace {

/// Nobody returns.
class IndependentUsers : public World {
 public:
  using World::World;

 protected:
  Visit fresh(double at_s) override { return {at_s, seen_++, 0, 0}; }
  Law law_of(const Visit& /*visit*/, Arm /*arm*/) override { return {}; }

 private:
  std::uint64_t seen_ = 0;
};

class ReturningUsers : public World {
 public:
  using World::World;

 protected:
  Law law_of(const Visit& /*visit*/, Arm /*arm*/) override { return {}; }
};

/// 200 heavy users, whose prompts are long, among 19,800 light ones.
class HeavyUsers : public World {
 public:
  using World::World;

 protected:
  Visit fresh(double at_s) override {
    const bool heavy = traffic().chance(kHeavyShare);
    return {at_s, heavy ? traffic().below(kHeavy) : kHeavy + traffic().below(kPeople - kHeavy), 0, 0};
  }

  Law law_of(const Visit& visit, Arm /*arm*/) override {
    Law law;
    const bool heavy = visit.person < kHeavy;
    law.own_failures = kFailureRate / (kHeavyShare * kTimes + 1 - kHeavyShare) * (heavy ? kTimes : 1);
    law.slowness = heavy ? 2 : 1;
    return law;
  }

 private:
  static constexpr std::uint64_t kHeavy = kPeople / 100;
  static constexpr double kHeavyShare = 0.4;
  static constexpr double kTimes = 10;
};

/// Each fresh request opens a session of a heavy-tailed number of requests. Some sessions go wrong: their
/// context has outgrown what the engine takes, say.
class Sessions : public World {
 public:
  using World::World;

 protected:
  [[nodiscard]] double rate() const override { return kRequestsPerSecond / kMeanLength; }

  Visit fresh(double at_s) override {
    Visit visit = World::fresh(at_s);
    visit.trait = traffic().chance(0.04) ? 0.15 : 0.004;
    visit.count = static_cast<unsigned>(std::min(400.0, traffic().pareto(3, 1.4)));
    return visit;
  }

  Law law_of(const Visit& visit, Arm /*arm*/) override {
    Law law;
    law.own_failures = visit.trait;
    return law;
  }

  void after(const Visit& visit, Arm /*arm*/, bool /*failed*/) override {
    if (visit.count <= 1) return;
    Visit following = visit;
    following.at_s += traffic().exponential(traffic().chance(0.7) ? 0.3 : 10);
    --following.count;
    put_off(following);
  }

 private:
  static constexpr double kMeanLength = 8.95;  // The mean of the law in fresh().
};

/// The load follows the hour of the day and a weather of minutes; failures and latencies follow the load.
class DayCycle : public World {
 public:
  DayCycle(std::uint64_t seed, double start_s, const Harm& harm)
      : World(seed, start_s, harm),
        phase_s_(kDay * Noise(stream(seed, kShared)).uniform()),
        weather_(stream(seed, kShared + 1), {{{1, 0.05}, {5, 0.1}, {20, 0.1}}}) {}

 protected:
  [[nodiscard]] double rate() const override { return kRequestsPerSecond * load_; }

  void second(double at_s) override {
    weather_.step();
    const double hour = std::sin(2 * std::numbers::pi * (at_s + phase_s_) / kDay);
    load_ = (1 + kSwing * hour) * weather_.factor();
  }

  Law law_of(const Visit& /*visit*/, Arm /*arm*/) override {
    Law law;
    // The mean over requests of the squared load of a sine is 1 + 1.5 kSwing^2.
    law.own_failures = kFailureRate * load_ * load_ / (1 + 1.5 * kSwing * kSwing);
    law.slowness = 0.7 + 0.3 * load_ * load_;
    return law;
  }

 private:
  static constexpr double kSwing = 0.8;
  double phase_s_;
  Wander weather_;
  double load_ = 1;
};

/// Every few hours somebody new comes who sends two requests in each 4 s for an hour, all of which fail.
class PoisonUser : public World {
 public:
  PoisonUser(std::uint64_t seed, double start_s, const Harm& harm)
      : World(seed, start_s, harm),
        visits_(stream(seed, kShared), start_s,
                {[](Noise& noise) { return noise.exponential(3 * kHour); },
                 [](Noise& /*noise*/) { return kHour; }}) {}

 protected:
  [[nodiscard]] double rate() const override { return kRequestsPerSecond + (here_ ? kPoisonRate : 0); }

  void second(double at_s) override { here_ = visits_.active(at_s); }

  Visit fresh(double at_s) override {
    if (here_ && traffic().chance(kPoisonRate / rate())) return {at_s, kPeople + visits_.number(), 1, 0};
    return World::fresh(at_s);
  }

  Law law_of(const Visit& visit, Arm /*arm*/) override {
    Law law;
    law.own_failures = 0.005;
    law.imposed_failures = visit.trait;
    return law;
  }

 private:
  static constexpr double kPoisonRate = 0.5;
  Episodes visits_;
  bool here_ = false;
};

/// 50 tenants of unequal size. Each in its turn ships a broken client, and of its requests 30% fail for a
/// while.
class BadTenant : public World {
 public:
  BadTenant(std::uint64_t seed, double start_s, const Harm& harm) : World(seed, start_s, harm) {
    const EpisodeLaw law = {[](Noise& noise) { return noise.exponential(20 * kHour); },
                            [](Noise& noise) { return noise.between(10 * kMinute, 30 * kMinute); }};
    spells_.reserve(kTenantCount);
    for (std::size_t i = 0; i < kTenantCount; ++i) {
      spells_.emplace_back(stream(seed, kTenants + i), start_s, law);
    }
  }

 protected:
  Visit fresh(double at_s) override { return {at_s, flat_activity().at(traffic().uniform()), 0, 0}; }

  Law law_of(const Visit& visit, Arm /*arm*/) override {
    static const AliasTable sizes(zipf_weights(kTenantCount, 1.0));
    const double place = static_cast<double>(trait_hash(visit.person) >> 11U) * 0x1.0p-53;
    Law law;
    law.own_failures = 0.005;
    if (spells_[sizes.at(place)].active(visit.at_s)) law.imposed_failures = 0.3;
    return law;
  }

 private:
  static constexpr std::size_t kTenantCount = 50;
  std::vector<Episodes> spells_;
};

/// In the first two hours after time 0, and then daily, a customer starts a batch from 12 keys, with long
/// prompts. There is none of it in the history.
class BatchCustomer : public World {
 public:
  BatchCustomer(std::uint64_t seed, double start_s, const Harm& harm) : World(seed, start_s, harm) {
    Noise noise(stream(seed, kShared));
    first_s_ = noise.between(0, 2 * kHour);
    length_s_ = noise.between(kHour, 3 * kHour);
  }

 protected:
  [[nodiscard]] double rate() const override { return kRequestsPerSecond + (running_ ? kBatchRate : 0); }

  void second(double at_s) override {
    running_ = at_s >= first_s_ && std::fmod(at_s - first_s_, kDay) < length_s_;
  }

  Visit fresh(double at_s) override {
    if (running_ && traffic().chance(kBatchRate / rate())) {
      return {at_s, kPeople + traffic().below(kKeysOfBatch), 1, 0};
    }
    return World::fresh(at_s);
  }

  Law law_of(const Visit& visit, Arm /*arm*/) override {
    const bool batch = visit.trait > 0;
    Law law;
    law.own_failures = batch ? 0.03 : 0.008;
    law.slowness = batch ? 2.5 : 1;
    return law;
  }

 private:
  static constexpr double kBatchRate = 8;
  static constexpr std::uint64_t kKeysOfBatch = 12;
  double first_s_ = 0;
  double length_s_ = 0;
  bool running_ = false;
};

/// Users differ lastingly in how long their prompts are, thus in how long they wait.
class LatencyLevels : public World {
 public:
  using World::World;

 protected:
  Visit fresh(double at_s) override { return {at_s, flat_activity().at(traffic().uniform()), 0, 0}; }

  Law law_of(const Visit& visit, Arm /*arm*/) override {
    Law law;
    law.slowness = std::exp(0.6 * normal_of(trait_hash(visit.person)));
    law.spread = 0.25;
    return law;
  }
};

}  // namespace

std::vector<LiveWorldKind> kinds_of_users() {
  return {
      kind<IndependentUsers>("independent users",
                             "Nobody returns, and each request fails with probability 1%.", true),
      kind<ReturningUsers>("returning users",
                           "20,000 users return with Zipf activity (the first makes 9.5% of requests).",
                           true),
      kind<HeavyUsers>("heavy users fail",
                       "200 of 20,000 users make 40% of requests, fail 10 times as often and wait twice as "
                       "long.",
                       true),
      kind<Sessions>("sessions",
                     "Users come in bursts of a heavy-tailed number of requests; 4% of sessions fail at "
                     "15%.",
                     true),
      kind<DayCycle>("day cycle",
                     "Traffic swings by 80% with the hour; failures (0.02% to 1.7%) and latencies of both "
                     "arms follow the squared load.",
                     true),
      kind<PoisonUser>("poison user",
                       "Every four hours somebody new sends 0.5 requests a second for an hour, all of which "
                       "fail.",
                       true),
      kind<BadTenant>("bad tenant",
                      "50 tenants of unequal size, each of which fails at 30% for 10 to 30 minutes every 20 "
                      "hours.",
                      true),
      kind<BatchCustomer>("batch customer",
                          "Within two hours of time 0, and then daily, 12 keys add 8 requests a second for "
                          "hours which fail at 3% (others at 0.8%) and wait 2.5 times as long.",
                          true),
      kind<LatencyLevels>("latency levels",
                          "Users have lasting log-normal latency levels (0.6 in the logarithm).", true),
  };
}

}  // namespace driftgate::simulation::live

namespace driftgate::simulation {

const std::vector<LiveWorldKind>& live_worlds() {
  static const std::vector<LiveWorldKind> kinds = [] {
    std::vector<LiveWorldKind> all = live::kinds_of_users();
    std::vector<LiveWorldKind> engines = live::kinds_of_engines();
    std::move(engines.begin(), engines.end(), std::back_inserter(all));
    return all;
  }();
  return kinds;
}

}  // namespace driftgate::simulation
