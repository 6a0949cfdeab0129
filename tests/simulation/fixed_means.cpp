#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "stages/clauses/mean_rules.hpp"
#include "stages/statistics/distributions.hpp"
#include "tests/simulation/figure.hpp"
#include "tests/simulation/worlds.hpp"
#include "tests/stages/simulation/student_t.hpp"

// Means of fixed data: the truth exactly at the limit, and power at half of it.

namespace driftgate::simulation {
namespace {

using stages::ClusterSum;
using stages::MeanQuestion;
using stages::MeanRules;
using stages::MeanTest;
using stages::Random;

constexpr double kAlpha = 0.05;
/// What a first run spends of 0.05: 6α/π².
constexpr double kFirstAlpha = 0.030396;
constexpr double kLimit = 0.02;
constexpr double kClip = 0.25;
constexpr double kTail = 0.03;  ///< tolerated by p97
constexpr const char* kMeans = "means of fixed data";
constexpr MeanRules kExact{};
constexpr MeanRules kApproximate{.means = schema::Means::approximate};
const std::optional<std::pair<double, double>> kShare = std::pair(0.0, 1.0);
constexpr const char* kGaffke = "Gaffke's bound";
constexpr const char* kGaffkeClipped = "Gaffke's bound, clip 0.25";
constexpr const char* kBootstrap = "cluster bootstrap-t, range not known";

Random run_of(const Effort& effort, std::uint64_t run, std::size_t n, std::uint64_t salt) {
  return Random(stages::mix64(effort.seed + salt + 7'919 * run + n));
}

struct Counts {
  std::uint64_t passes = 0, violations = 0, undecidable = 0;
};
using Test = std::function<MeanTest(const std::vector<ClusterSum>&, std::uint64_t seed)>;

Counts count(const Effort& effort, std::uint64_t runs, const World& world, std::size_t n, const Test& test) {
  Counts counts;
  for (std::uint64_t run = 0; run < runs; ++run) {
    Random random = run_of(effort, run, n, 401);
    const MeanTest result = test(sample(world, n, random), run);
    counts.undecidable += result.undecidable.empty() ? 0 : 1;
    counts.passes += result.p_low <= kAlpha ? 1 : 0;
    counts.violations += result.p_high <= kAlpha ? 1 : 0;
  }
  return counts;
}

double share(std::uint64_t count, std::uint64_t runs) {
  return static_cast<double>(count) / static_cast<double>(runs);
}

std::string scenario(const World& world, std::size_t n) {
  return fmt::format("{}, {} sequences", world.name, n);
}

/// Means over sequences by the rules of a contract, at level alpha; without a range as of values that have no
/// largest one.
Test by_sequence(double tau, const MeanRules& rules,
                 const std::optional<std::pair<double, double>>& range = kShare, double alpha = kAlpha) {
  return [=](const std::vector<ClusterSum>& sums, std::uint64_t seed) {
    return stages::test_mean(sums, {.tau = tau, .range = range}, rules, alpha, seed);
  };
}

/// The same with each sequence's mean capped.
Test by_clipped(double tau, const MeanRules& rules, double alpha = kAlpha) {
  const Test test = by_sequence(tau, rules, stages::clipped_range(kShare, 0, kClip), alpha);
  return [test](const std::vector<ClusterSum>& sums, std::uint64_t seed) {
    std::vector<ClusterSum> capped = sums;
    stages::count_once(capped);
    for (ClusterSum& one : capped) one.sum = std::min(one.sum, kClip);
    return test(capped, seed);
  };
}

std::vector<World> at_the_limit() {
  return {log_normal(kLimit, 0.5), log_normal(kLimit, 1.3), log_normal(kLimit, 2),  few_bad(kLimit, 0.01),
          few_bad(kLimit, 0.02),   few_bad(kLimit, 0.03),   all_or_nothing(kLimit), long_and_bad()};
}

void add_exact(const Effort& effort, const World& world, Figures& out) {
  const std::uint64_t runs = effort.runs(2'000);
  const Truth truth = truth_of(world);
  for (const std::size_t n : {60U, 130U, 220U, 400U}) {
    const Counts counts = count(effort, runs, world, n, by_sequence(truth.mean, kExact));
    const auto add = [&](const char* what, std::uint64_t times) {
      out.push_back({kMeans, "exact: betting on each sequence once", scenario(world, n), what,
                     share(times, runs), runs, kAlpha, Claim::exact});
    };
    add("false passes at the limit", counts.passes);
    add("false violations at the limit", counts.violations);
  }
}

/// Tokens that count alike: the bound's scale must be known before the data.
void add_by_token(const Effort& effort, Figures& out) {
  const World world = long_and_bad();
  const double tau = 0.99 * truth_of(world).by_token;
  const std::uint64_t runs = effort.runs(2'000);
  const auto with_most = [&](bool known) {
    return Test([=](const std::vector<ClusterSum>& sums, std::uint64_t seed) {
      double most = kLongest;
      if (!known) most = std::ranges::max_element(sums, {}, &ClusterSum::n)->n;
      return stages::betting_mean(sums, tau, {0, 1, most}, kAlpha, seed);
    });
  };
  for (const std::size_t n : {150U, 199U}) {
    const auto add = [&](const char* method, const Counts& counts, Claim claim) {
      out.push_back({kMeans, method, scenario(world, n), "false passes, limit 1% below the truth",
                     share(counts.passes, runs), runs, kAlpha, claim});
    };
    add("exact: betting on tokens, scaled by max_tokens", count(effort, runs, world, n, with_most(true)),
        Claim::exact);
    add("betting on tokens, scaled by the longest seen", count(effort, runs, world, n, with_most(false)),
        Claim::figure);
  }
}

/// Capped mean and quantile over sequences as they stand in a contract.
struct Pair {
  bool clip = false, tail = false;
};
Pair decide_pair(const std::vector<ClusterSum>& sums, double tau, double alpha, std::uint64_t seed) {
  std::vector<ClusterSum> capped, above;
  for (const ClusterSum& sum : sums) {
    const double mean = sum.sum / sum.n;
    capped.push_back({1, std::min(mean, kClip)});
    above.push_back({1, mean > kClip ? 1.0 : 0.0});
  }
  const MeanQuestion question{.tau = tau, .range = stages::clipped_range(kShare, 0, kClip)};
  return {stages::test_mean(capped, question, {.clip = kClip}, alpha, seed).p_low <= alpha,
          stages::exceedance(above, kTail, alpha, seed).p_low <= alpha};
}

/// `above` of the sequences are at 0.6, over the clip; the others scatter so that the capped mean is
/// `capped`.
World beyond_the_clip(double above, double capped) {
  const World rest = log_normal((capped - above * kClip) / (1 - above), 0.5);
  return {fmt::format("{:.3g}% above the clip, capped mean {:.3g}", 100 * above, capped),
          [=](Random& random) {
            return random.uniform() < above ? ClusterSum{20, 12} : rest.draw(random);
          }};
}

void add_clipped(const Effort& effort, const World& world, double tau, bool above_is_null, Figures& out) {
  const std::uint64_t runs = effort.runs(2'000);
  for (const std::size_t n : {120U, 130U, 260U}) {
    std::uint64_t clips = 0, tails = 0, pairs = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      Random random = run_of(effort, run, n, 421);
      const Pair pair = decide_pair(sample(world, n, random), tau, kAlpha, run);
      clips += pair.clip ? 1 : 0;
      tails += pair.tail ? 1 : 0;
      pairs += pair.clip && pair.tail ? 1 : 0;
    }
    const auto add = [&](const char* method, std::uint64_t times, bool is_null) {
      out.push_back({"clipped means", method, scenario(world, n),
                     is_null ? "false passes at the limit" : "passes", share(times, runs), runs, kAlpha,
                     is_null ? Claim::exact : Claim::figure});
    };
    add("clip 0.25", clips, !above_is_null);
    add("p97 over sequences at 0.25", tails, above_is_null);
    add("both", pairs, true);
  }
}

/// The upper limit of the share of sequences above the clip, told apart by whether any was seen.
void add_share_above(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(4'000);
  for (const double truth : {0.001, 0.005, 0.01, 0.03, 0.1}) {
    for (const std::size_t n : {60U, 130U, 260U}) {
      std::uint64_t unseen_misses = 0, seen_misses = 0;
      for (std::uint64_t run = 0; run < runs; ++run) {
        Random random = run_of(effort, run, n, 431);
        std::uint64_t above = 0;
        for (std::size_t i = 0; i < n; ++i) above += random.uniform() < truth ? 1 : 0;
        const bool misses = stages::clopper_pearson_upper(above, n, kAlpha) < truth;
        unseen_misses += misses && above == 0 ? 1 : 0;
        seen_misses += misses && above > 0 ? 1 : 0;
      }
      const auto add = [&](const char* what, std::uint64_t times) {
        out.push_back({"share above the clip", "Clopper–Pearson",
                       fmt::format("{:g}% above, {} sequences", 100 * truth, n), what, share(times, runs),
                       runs, kAlpha, Claim::exact});
      };
      add("limits under the truth, none seen above", unseen_misses);
      add("limits under the truth, some seen above", seen_misses);
      add("limits under the truth", unseen_misses + seen_misses);
    }
  }
}

/// One in two hundred is wholly wrong, beside a drift that scatters; `mean` is that of the capped values.
World catastrophes(double mean) {
  return {"0.5% wholly wrong beside log-normal, CV 0.5",
          [rest = log_normal((mean - 0.005 * kClip) / 0.995, 0.5)](Random& random) {
            return random.uniform() < 0.005 ? ClusterSum{20, 20} : rest.draw(random);
          }};
}

/// Nine in ten do not drift at all and the others scatter as much as they drift.
World mostly_zeros(double mean) {
  return {"nine in ten without any drift", [mean](Random& random) {
            const double drift = -10 * mean * std::log1p(-random.uniform());
            return ClusterSum{1, random.uniform() < 0.9 ? 0 : std::min(1.0, drift)};
          }};
}

/// Either no drift or as much as the clip.
World two_points(double mean) {
  return {"at the clip or without any drift", [mean](Random& random) {
            return ClusterSum{1, random.uniform() < mean / kClip ? kClip : 0.0};
          }};
}

/// The ceiling that is claimed of bootstrap-t, if any is.
std::optional<double> ceiling_of(const std::string& world, std::size_t n) {
  if (world.starts_with("log-normal")) return 0.12;
  if (world.starts_with("3% bad") && n >= 100) return 0.08;
  return std::nullopt;
}

void add_errors(const Effort& effort, const char* method, const World& world, std::size_t n, const Test& test,
                std::optional<double> ceiling, bool claims_passes, Figures& out) {
  const std::uint64_t runs = effort.runs(1'000);
  const Counts counts = count(effort, runs, world, n, test);
  const auto add = [&](const char* what, std::uint64_t times, bool claimed) {
    out.push_back({"approximate means", method, scenario(world, n), what, share(times, runs), runs, kAlpha,
                   claimed ? Claim::approximate : Claim::figure, "", ceiling});
  };
  add("false passes at the limit", counts.passes, claims_passes);
  add("false violations at the limit", counts.violations, true);
  if (std::string_view(method) == kBootstrap) add("left undecided by the guard", counts.undecidable, false);
}

void add_approximate(const Effort& effort, const World& world, double tau, std::size_t n, Figures& out) {
  add_errors(effort, kGaffke, world, n, by_sequence(tau, kApproximate), std::nullopt, true, out);
  const auto ceiling = ceiling_of(world.name, n);
  add_errors(effort, kBootstrap, world, n, by_sequence(tau, kApproximate, std::nullopt), ceiling,
             ceiling.has_value(), out);
  const Test student = [tau](const std::vector<ClusterSum>& sums, std::uint64_t) {
    std::vector<ClusterSum> once = sums;
    stages::count_once(once);
    const stages::StudentT t = stages::student_t(once, tau);
    MeanTest test;
    test.p_low = t.p_low;
    test.p_high = t.p_high;
    return test;
  };
  const std::uint64_t runs = effort.runs(1'000);
  out.push_back({"approximate means", "Student's t on sequences", scenario(world, n),
                 "false passes at the limit", share(count(effort, runs, world, n, student).passes, runs),
                 runs, kAlpha, Claim::figure, ""});
}

void add_power(const Effort& effort, const char* method, const World& world, std::size_t n, bool claimed,
               const std::function<bool(const std::vector<ClusterSum>&, std::uint64_t)>& passes,
               Figures& out) {
  const std::uint64_t runs = effort.runs(4'000);
  std::uint64_t passed = 0;
  for (std::uint64_t run = 0; run < runs; ++run) {
    Random random = run_of(effort, run, n, 441);
    passed += passes(sample(world, n, random), run) ? 1 : 0;
  }
  out.push_back({"power of means", method, scenario(world, n), "passes", share(passed, runs), runs,
                 claimed ? std::optional(0.8) : std::nullopt, claimed ? Claim::at_least : Claim::figure});
}

}  // namespace

void fixed_means(const Effort& effort, Figures& out) {
  for (const World& world : at_the_limit()) add_exact(effort, world, out);
  add_by_token(effort, out);
}

void clipped_means(const Effort& effort, Figures& out) {
  for (const World& world : {log_normal(kLimit, 0.5), log_normal(kLimit, 2), few_bad(kLimit, 0.01),
                             few_bad(kLimit, 0.03), beyond_the_clip(0.02, kLimit)}) {
    add_clipped(effort, world, truth_of(world, kClip).mean, false, out);
  }
  // Just over 3% above the clip, and the capped mean well inside its limit.
  add_clipped(effort, beyond_the_clip(0.0301, 0.012), kLimit, true, out);
  add_share_above(effort, out);
}

void approximate_means(const Effort& effort, Figures& out) {
  for (const double variation : {0.5, 1.3, 2.0}) {
    const World world = log_normal(kLimit, variation);
    const double tau = truth_of(world).mean;
    for (const std::size_t n : {50U, 100U, 200U, 400U}) add_approximate(effort, world, tau, n, out);
  }
  for (const double bad : {0.01, 0.02, 0.03}) {
    const World world = few_bad(kLimit, bad);
    const double tau = truth_of(world).mean;
    for (const std::size_t n : {50U, 100U, 200U, 220U, 400U}) add_approximate(effort, world, tau, n, out);
  }
  for (const World& world :
       {log_normal(kLimit, 2), catastrophes(kLimit), mostly_zeros(kLimit), two_points(kLimit)}) {
    const Test test = by_clipped(truth_of(world, kClip).mean, kApproximate);
    for (const std::size_t n : {20U, 50U, 100U, 200U, 400U})
      add_errors(effort, kGaffkeClipped, world, n, test, std::nullopt, true, out);
  }
}

void power_of_means(const Effort& effort, Figures& out) {
  const double half = kLimit / 2;
  const auto proves = [](const Test& test) {
    return [test](const std::vector<ClusterSum>& sums, std::uint64_t seed) {
      return test(sums, seed).p_low <= kFirstAlpha;
    };
  };
  const auto without_clip = proves(by_sequence(kLimit, kExact, kShare, kFirstAlpha));
  const auto pair = [](const std::vector<ClusterSum>& sums, std::uint64_t seed) {
    const Pair both = decide_pair(sums, kLimit, kFirstAlpha, seed);
    return both.clip && both.tail;
  };
  const auto clip = [](const std::vector<ClusterSum>& sums, std::uint64_t seed) {
    return decide_pair(sums, kLimit, kFirstAlpha, seed).clip;
  };
  for (const double variation : {0.5, 1.0, 2.0}) {
    const World world = log_normal(half, variation);
    add_power(effort, "exact with clip 0.25", world, 120, true, clip, out);
    add_power(effort, "exact with clip 0.25 and p97 over sequences", world, 130, true, pair, out);
    add_power(effort, "exact without a clip", world, 200, false, without_clip, out);
    add_power(effort, "exact without a clip", world, 400, false, without_clip, out);
  }
  // A wholly wrong sequence in two hundred, few that drift, or two values: what the approximate method is
  // for.
  const auto gaffke = proves(by_clipped(kLimit, kApproximate, kFirstAlpha));
  for (const auto& [world, n] : {std::pair(catastrophes(half), 120U), std::pair(mostly_zeros(half), 200U),
                                 std::pair(two_points(half), 300U)}) {
    add_power(effort, kGaffkeClipped, world, n, true, gaffke, out);
    for (const std::size_t more : {n, 2 * n})
      add_power(effort, "exact with clip 0.25", world, more, false, clip, out);
  }
  add_power(effort, kGaffke, log_normal(half, 2), 400, true,
            proves(by_sequence(kLimit, kApproximate, kShare, kFirstAlpha)), out);
  const auto resampled = proves(by_sequence(kLimit, kApproximate, std::nullopt, kFirstAlpha));
  add_power(effort, kBootstrap, log_normal(half, 0.5), 50, true, resampled, out);
  add_power(effort, kBootstrap, log_normal(half, 1.3), 100, true, resampled, out);
  add_power(effort, kBootstrap, log_normal(half, 2), 200, false, resampled, out);
  // What the pair lets through: 1% of the sequences wholly wrong, beside a drift of half the limit.
  const World wrong{"1% wholly wrong beside log-normal, CV 0.5",
                    [rest = log_normal(half, 0.5)](Random& random) {
                      return random.uniform() < 0.01 ? ClusterSum{20, 20} : rest.draw(random);
                    }};
  add_power(effort, "exact with clip 0.25 and p97 over sequences", wrong, 120, false, pair, out);
}

}  // namespace driftgate::simulation
