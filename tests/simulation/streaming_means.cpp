#include <algorithm>
#include <cmath>

#include "stages/statistics/betting_martingale.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/log_mean_sequence.hpp"
#include "stages/statistics/noise_contrast.hpp"
#include "stages/statistics/quantiles.hpp"
#include "stages/statistics/random.hpp"
#include "stages/statistics/rate_difference_process.hpp"
#include "stages/statistics/split_guard.hpp"
#include "tests/simulation/figure.hpp"

namespace driftgate::simulation {
namespace {

constexpr double kAlpha = 0.05;

double normal(stages::Random& random) {
  return stages::normal_quantile(std::clamp(random.uniform(), 1e-16, 1 - 1e-16));
}

/// The share of runs in which `alarms(random)` is true.
template <typename Alarms>
double share_of(const Effort& effort, std::uint64_t runs, std::uint64_t salt, Alarms alarms) {
  std::uint64_t count = 0;
  for (std::uint64_t run = 0; run < runs; ++run) {
    stages::Random random(stages::mix64(effort.seed + salt + 1'000'003 * run));
    count += alarms(random) ? 1 : 0;
  }
  return static_cast<double>(count) / static_cast<double>(runs);
}

/// Values in [0,1] with mean 0.1: mostly small, now and then large.
double skewed(stages::Random& random) {
  return random.uniform() < 0.05 ? 1.0 : (0.05 / 0.95) * 2 * random.uniform();
}

/// Whether a limit of the sequence is ever on the wrong side of the mean of 0.1.
bool ever_misses(stages::Random& random, int looks, bool by_lower) {
  stages::BettingSequence sequence(kAlpha);
  bool missed = false;
  for (int i = 0; i < looks; ++i) {
    sequence.update(skewed(random));
    const auto limits = sequence.limits();
    missed = missed || (by_lower ? limits.lower > 0.1 : limits.upper < 0.1);
  }
  return missed;
}

}  // namespace

void streamed_means(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(1'000);
  constexpr int kLooks = 2'000;
  const auto add = [&](const char* method, const char* scenario, const char* quantity, double value) {
    out.push_back(
        {"means looked at continuously", method, scenario, quantity, value, runs, kAlpha, Claim::exact, ""});
  };
  add("betting confidence sequence", "skewed values of mean 0.1", "lower limit ever above the mean",
      share_of(effort, runs, 101,
               [](stages::Random& random) { return ever_misses(random, kLooks / 4, true); }));
  add("betting confidence sequence", "skewed values of mean 0.1", "upper limit ever below the mean",
      share_of(effort, runs, 102,
               [](stages::Random& random) { return ever_misses(random, kLooks / 4, false); }));
  for (const bool proof : {true, false}) {
    add("non-inferiority martingale", "mean difference at the margin of 0.05",
        proof ? "false proofs" : "false alarms",
        share_of(effort, runs, proof ? 103 : 104, [&](stages::Random& random) {
          stages::NonInferiorityProcess process(0.05, kAlpha);
          bool alarm = false;
          for (int i = 0; i < kLooks; ++i) {
            const double u = random.uniform();
            process.update(u < 0.10 ? -1 : u < 0.15 ? 1 : 0);
            alarm = alarm || (proof ? process.e_proof() : process.e_harm()) >= 1 / kAlpha;
          }
          return alarm;
        }));
    add("rate difference process", "difference at the limit of 1%", proof ? "false proofs" : "false alarms",
        share_of(effort, runs, proof ? 105 : 106, [&](stages::Random& random) {
          stages::RateDifferenceProcess process(0.01, kAlpha);
          bool alarm = false;
          for (int i = 0; i < 2 * kLooks; ++i) {
            const double share = i < kLooks ? 0.1 : 0.5;
            const bool candidate = random.uniform() < share;
            process.update(candidate, random.uniform() < (candidate ? 0.02 : 0.01), share);
            alarm = alarm || (proof ? process.e_proof() : process.e_harm()) >= 1 / kAlpha;
          }
          return alarm;
        }));
    add("noise contrast", "excess at the limit of 2%", proof ? "false proofs" : "false alarms",
        share_of(effort, runs, proof ? 107 : 108, [&](stages::Random& random) {
          stages::NoiseContrastProcess process(0.02, kAlpha);
          bool alarm = false;
          for (int i = 0; i < kLooks; ++i) {
            process.update(random.uniform() < 0.12, random.uniform() < 0.10);
            alarm = alarm || (proof ? process.e_proof() : process.e_harm()) >= 1 / kAlpha;
          }
          return alarm;
        }));
  }
}

void streamed_latency(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(1'000);
  constexpr int kValues = 6'000;
  struct Shape {
    const char* name;
    double deviation;
  };
  for (const Shape& shape :
       {Shape{"log-normal latency, σ = 0.5", 0.5}, Shape{"log-normal latency, σ = 1.2", 1.2}}) {
    const double p95 = std::exp(stages::normal_quantile(0.95) * shape.deviation);
    const auto quantile_misses = [&](bool lower) {
      return share_of(effort, runs / 2 + 10, lower ? 201 : 202, [&](stages::Random& random) {
        stages::QuantileSequence sequence;
        bool missed = false;
        for (int i = 1; i <= kValues; ++i) {
          sequence.add(100 * std::exp(normal(random) * shape.deviation));
          if (i % 25 != 0) continue;
          const auto limits = sequence.limits(0.95, kAlpha);
          missed = missed || (lower ? limits.lower > 100 * p95 : limits.upper < 100 * p95);
        }
        return missed;
      });
    };
    for (const bool lower : {true, false}) {
      out.push_back({"latency looked at continuously", "quantile confidence sequence", shape.name,
                     lower ? "lower limit of p95 ever above it" : "upper limit of p95 ever below it",
                     quantile_misses(lower), runs / 2 + 10, kAlpha, Claim::exact, ""});
    }
    const double mean_misses = share_of(effort, runs, 203, [&](stages::Random& random) {
      stages::LogMeanSequence sequence;
      bool missed = false;
      for (int i = 1; i <= kValues; ++i) {
        sequence.add(100 * std::exp(normal(random) * shape.deviation));
        if (i < 500 || i % 25 != 0) continue;
        const auto limits = sequence.limits(kAlpha, 2'000);
        missed = missed || limits.lower > 100;
      }
      return missed;
    });
    out.push_back({"latency looked at continuously", "asymptotic confidence sequence of log-latency",
                   shape.name, "lower limit ever above the mean", mean_misses, runs, kAlpha,
                   Claim::approximate, "51–70% when looked at from the first value"});
    const double repeated_t = share_of(effort, runs, 204, [&](stages::Random& random) {
      double n = 0, mean = 0, squares = 0;
      bool missed = false;
      for (int i = 1; i <= kValues; ++i) {
        const double x = normal(random) * shape.deviation;
        n += 1;
        const double before = x - mean;
        mean += before / n;
        squares += before * (x - mean);
        if (i < 500 || i % 25 != 0) continue;
        missed = missed || mean - stages::normal_quantile(1 - kAlpha) * std::sqrt(squares / n / n) > 0;
      }
      return missed;
    });
    out.push_back({"latency looked at continuously", "repeated t-interval", shape.name,
                   "lower limit ever above the mean", repeated_t, runs, kAlpha, Claim::figure, ""});
  }
}

void traffic_split(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(1'000);
  constexpr double kLevel = 0.01;
  for (const double off : {0.0, 0.01, 0.02}) {
    const double alarms = share_of(effort, runs, 301, [&](stages::Random& random) {
      stages::SplitGuard guard;
      bool alarm = false;
      for (const std::uint32_t share_bp : {100U, 500U, 2'500U, 5'000U}) {
        const double truth = share_bp / 10'000.0 + (share_bp == 100 ? 0 : off);
        for (int key = 0; key < 5'000; ++key) {
          guard.update(random.uniform() < truth, share_bp);
          alarm = alarm || (key % 50 == 49 && guard.e_value() >= 1 / kLevel);
        }
      }
      return alarm;
    });
    const std::string scenario = off <= 0 ? std::string("as configured")
                                          : "off by " + std::to_string(off * 100).substr(0, 1) + " point";
    out.push_back({"traffic split", "split guard, α = 0.01", scenario, off <= 0 ? "false alarms" : "alarms",
                   alarms, runs, off <= 0 ? std::optional(kLevel) : std::nullopt,
                   off <= 0 ? Claim::exact : Claim::figure, ""});
  }
}

}  // namespace driftgate::simulation
