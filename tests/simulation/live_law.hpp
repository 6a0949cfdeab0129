#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numbers>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "stages/statistics/random.hpp"
#include "tests/simulation/live_worlds.hpp"

/// What the worlds of live_worlds.hpp are made of.
namespace driftgate::simulation::live {

using stages::mix64;
using stages::Random;

inline constexpr double kRequestsPerSecond = 20;
inline constexpr double kFailureRate = 0.01;
inline constexpr double kMedianMs = 180;
inline constexpr std::size_t kPeople = 20'000;
inline constexpr double kMinute = 60;
inline constexpr double kHour = 3600;
inline constexpr double kDay = 86'400;

/// The independent streams of random numbers that one seed gives. The two of an arm follow one another.
enum Stream : std::uint64_t {
  kKeys = 0,
  kTraffic = 1,
  kOutcomes = 2,
  kEngines = 4,
  kShared = 6,
  kTenants = 1000
};

inline std::uint64_t stream(std::uint64_t seed, std::uint64_t number) {
  return mix64(mix64(seed) + number);
}

inline std::size_t index(Arm arm) {
  return static_cast<std::size_t>(arm);
}

/// Random numbers of the laws that the worlds need.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : random_(seed) {}

  double uniform() { return random_.uniform(); }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  bool chance(double probability) { return uniform() < probability; }
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }
  double pareto(double least, double shape) { return least * std::pow(1 - uniform(), -1 / shape); }

  /// Standard normal, by the method of Box and Muller, which gives two at a time.
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log1p(-uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  Random random_;
  double spare_ = 0;
  bool has_spare_ = false;
};

/// A standard normal that is a fixed function of a hash: a lasting trait of a user.
inline double normal_of(std::uint64_t hash) {
  const double first = (static_cast<double>(hash >> 32U) + 0.5) * 0x1.0p-32;
  const double second = static_cast<double>(hash & 0xffffffffU) * 0x1.0p-32;
  return std::sqrt(-2 * std::log(first)) * std::cos(2 * std::numbers::pi * second);
}

/// Draws from a fixed discrete law in constant time (the alias method of Walker and Vose).
class AliasTable {
 public:
  explicit AliasTable(std::vector<double> weights) : keep_(std::move(weights)), alias_(keep_.size()) {
    double total = 0;
    for (const double weight : keep_) total += weight;
    std::vector<std::size_t> small;
    std::vector<std::size_t> large;
    for (std::size_t i = 0; i < keep_.size(); ++i) {
      keep_[i] *= static_cast<double>(keep_.size()) / total;
      alias_[i] = i;
      (keep_[i] < 1 ? small : large).push_back(i);
    }
    while (!small.empty() && !large.empty()) {
      const std::size_t low = small.back();
      const std::size_t high = large.back();
      small.pop_back();
      alias_[low] = high;
      keep_[high] -= 1 - keep_[low];
      if (keep_[high] < 1) {
        large.pop_back();
        small.push_back(high);
      }
    }
    // What is left differs from 1 by rounding alone.
    for (const std::size_t i : small) keep_[i] = 1;
    for (const std::size_t i : large) keep_[i] = 1;
  }

  /// The outcome that belongs to a uniform number in [0, 1).
  [[nodiscard]] std::size_t at(double uniform) const {
    const double scaled = uniform * static_cast<double>(keep_.size());
    const std::size_t cell = std::min(static_cast<std::size_t>(scaled), keep_.size() - 1);
    return scaled - static_cast<double>(cell) < keep_[cell] ? cell : alias_[cell];
  }

 private:
  std::vector<double> keep_;
  std::vector<std::size_t> alias_;
};

inline std::vector<double> zipf_weights(std::size_t count, double exponent) {
  std::vector<double> weights(count);
  for (std::size_t i = 0; i < count; ++i) weights[i] = std::pow(static_cast<double>(i + 1), -exponent);
  return weights;
}

/// The activity of returning users: the most active one makes 9.5% of all requests.
inline const AliasTable& steep_activity() {
  static const AliasTable table(zipf_weights(kPeople, 1.0));
  return table;
}

/// A flatter activity: the most active user makes 3% of all requests.
inline const AliasTable& flat_activity() {
  static const AliasTable table(zipf_weights(kPeople, 0.8));
  return table;
}

/// Something that comes and goes by itself, such as an outage. Gaps and lengths have laws of their own.
struct EpisodeLaw {
  double (*gap_s)(Noise&);
  double (*length_s)(Noise&);
};

class Episodes {
 public:
  Episodes(std::uint64_t seed, double start_s, EpisodeLaw law)
      : noise_(seed), law_(law), begin_s_(start_s - kSettle), end_s_(begin_s_) {
    advance(start_s);
  }

  /// Whether an episode is on. Times must not decrease.
  bool active(double at_s) {
    advance(at_s);
    return at_s >= begin_s_;
  }

  // These four speak of the episode that active() has just found.
  [[nodiscard]] double progress(double at_s) const { return (at_s - begin_s_) / (end_s_ - begin_s_); }
  [[nodiscard]] double left_s(double at_s) const { return end_s_ - at_s; }
  [[nodiscard]] double severity() const { return severity_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }

 private:
  /// The process runs for so long before the start that it has forgotten how it began.
  static inline constexpr double kSettle = 200'000;

  void advance(double at_s) {
    while (at_s >= end_s_) {
      begin_s_ = end_s_ + law_.gap_s(noise_);
      end_s_ = begin_s_ + law_.length_s(noise_);
      severity_ = noise_.between(0.5, 1.5);
      ++number_;
    }
  }

  Noise noise_;
  EpisodeLaw law_;
  double begin_s_;
  double end_s_;
  double severity_ = 1;
  std::uint64_t number_ = 0;
};

inline std::array<Episodes, 2> episodes_of_each_arm(std::uint64_t seed, double start_s, EpisodeLaw law) {
  return {Episodes(stream(seed, kEngines), start_s, law), Episodes(stream(seed, kEngines + 1), start_s, law)};
}

struct Scale {
  double minutes = 1;
  double deviation = 0;
};
using Scales = std::array<Scale, 3>;

/// A positive factor of mean 1 whose logarithm is a sum of three stationary autoregressions, one a time
/// scale.
class Wander {
 public:
  Wander(std::uint64_t seed, const Scales& scales) : noise_(seed) {
    for (std::size_t i = 0; i < scales.size(); ++i) {
      keep_[i] = std::exp(-1 / (kMinute * scales[i].minutes));
      kick_[i] = scales[i].deviation * std::sqrt(1 - keep_[i] * keep_[i]);
      level_[i] = scales[i].deviation * noise_.normal();
      variance_ += scales[i].deviation * scales[i].deviation;
    }
    update();
  }

  /// One second passes.
  void step() {
    for (std::size_t i = 0; i < level_.size(); ++i) {
      level_[i] = keep_[i] * level_[i] + kick_[i] * noise_.normal();
    }
    update();
  }

  [[nodiscard]] double factor() const { return factor_; }
  /// A milder companion of the factor, for latencies: its 0.15th power, roughly.
  [[nodiscard]] double slowness() const { return slowness_; }

 private:
  void update() {
    const double sum = level_[0] + level_[1] + level_[2];
    factor_ = std::exp(sum - variance_ / 2);
    slowness_ = std::exp(0.15 * sum);
  }

  Noise noise_;
  std::array<double, 3> keep_ = {};
  std::array<double, 3> kick_ = {};
  std::array<double, 3> level_ = {};
  double variance_ = 0;
  double factor_ = 1;
  double slowness_ = 1;
};

/// A request as its world knows it. What `trait` and `count` mean is the affair of the world.
struct Visit {
  double at_s = 0;
  std::uint64_t person = 0;
  double trait = 0;
  unsigned count = 0;
};

struct Later {
  bool operator()(const Visit& a, const Visit& b) const { return a.at_s > b.at_s; }
};

/// The law of one answer. A harm multiplies the engine's own failures, not those that are imposed on it.
struct Law {
  double own_failures = kFailureRate;
  double imposed_failures = 0;
  double slowness = 1;
  double wait_ms = 0;
  double spread = 0.4;
};

/// What all worlds share: fresh requests that come at random at a rate which may change each second, requests
/// that were put off until later (the rest of a session, or a retry), and the lot of each request.
class World : public LiveWorld {
 public:
  World(std::uint64_t seed, double start_s, const Harm& harm)
      : traffic_(stream(seed, kTraffic)),
        outcomes_{Noise(stream(seed, kOutcomes)), Noise(stream(seed, kOutcomes + 1))},
        key_salt_(stream(seed, kKeys)),
        harm_(harm),
        fresh_at_s_(start_s),
        next_second_s_(start_s) {}

  LiveRequest next() final {
    if (waiting_.empty() || fresh_at_s_ <= waiting_.top().at_s) {
      catch_up(fresh_at_s_);
      visit_ = fresh(fresh_at_s_);
      fresh_at_s_ += traffic_.exponential(1 / rate());
    } else {
      visit_ = waiting_.top();
      waiting_.pop();
      catch_up(visit_.at_s);
    }
    return {visit_.at_s, mix64(key_salt_ + visit_.person)};
  }

  Answer serve(const LiveRequest& /*request*/, Arm arm) final {
    const Law law = law_of(visit_, arm);
    Noise& noise = outcomes_[index(arm)];
    const double own = std::min(1.0, law.own_failures * failure_harm(arm));
    const bool failed = noise.chance(1 - (1 - own) * (1 - law.imposed_failures));
    double ms = kMedianMs * law.slowness * std::exp(law.spread * noise.normal()) + law.wait_ms;
    if (arm == Arm::candidate) ms *= harm_.latency;
    after(visit_, arm, failed);
    return {failed, ms};
  }

 protected:
  /// Fresh requests per second, now.
  [[nodiscard]] virtual double rate() const { return kRequestsPerSecond; }
  /// Who makes the fresh request of this moment. By default, 20,000 people who return.
  virtual Visit fresh(double at_s) { return {at_s, steep_activity().at(traffic_.uniform()), 0, 0}; }
  /// Called as each second begins, before its requests.
  virtual void second(double /*at_s*/) {}
  virtual Law law_of(const Visit& visit, Arm arm) = 0;
  /// Called after each answer.
  virtual void after(const Visit& /*visit*/, Arm /*arm*/, bool /*failed*/) {}

  Noise& traffic() { return traffic_; }
  void put_off(const Visit& visit) { waiting_.push(visit); }
  [[nodiscard]] double failure_harm(Arm arm) const { return arm == Arm::candidate ? harm_.failures : 1; }
  [[nodiscard]] std::uint64_t trait_hash(std::uint64_t person) const { return mix64(~key_salt_ + person); }

 private:
  void catch_up(double at_s) {
    for (; next_second_s_ <= at_s; next_second_s_ += 1) second(next_second_s_);
  }

  Noise traffic_;
  std::array<Noise, 2> outcomes_;
  std::uint64_t key_salt_;
  Harm harm_;
  double fresh_at_s_;
  double next_second_s_;
  Visit visit_;
  std::priority_queue<Visit, std::vector<Visit>, Later> waiting_;
};

template <typename Kind, typename... More>
LiveWorldKind kind(std::string name, std::string description, bool equal, More... more) {
  return {std::move(name), std::move(description), equal,
          [more...](std::uint64_t seed, double start_s, const Harm& harm) -> std::unique_ptr<LiveWorld> {
            return std::make_unique<Kind>(seed, start_s, harm, more...);
          }};
}

[[nodiscard]] std::vector<LiveWorldKind> kinds_of_users();
[[nodiscard]] std::vector<LiveWorldKind> kinds_of_engines();
/// Engines that swing by themselves in one way each; these were named by who knew the method.
[[nodiscard]] std::vector<LiveWorldKind> kinds_that_wander();

}  // namespace driftgate::simulation::live
