#include <algorithm>
#include <cmath>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/mean_test.hpp"
#include "stages/statistics/multiple.hpp"
#include "stages/statistics/paired.hpp"
#include "stages/statistics/random.hpp"
#include "tests/simulation/figure.hpp"

namespace driftgate::simulation {
namespace {

using stages::ClusterSum;
using stages::MeanTest;
using stages::Random;

constexpr double kAlpha = 0.05;

double normal(Random& random) {
  return stages::normal_quantile(std::clamp(random.uniform(), 1e-16, 1 - 1e-16));
}

}  // namespace

void fixed_shares(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(2'000);
  constexpr double kTolerated = 0.05;
  struct Shape {
    const char* name;
    std::uint64_t rows;
    bool clustered;
  };
  for (const Shape& shape : {Shape{"one row in each of 300 sequences", 1, false},
                             Shape{"40 rows in each of 150 sequences, independent", 40, false},
                             Shape{"40 rows in each of 150 sequences, clustered", 40, true}}) {
    std::uint64_t passes = 0, violations = 0, woodruff = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      Random random(stages::mix64(effort.seed + 501 + 104'729 * run));
      std::vector<ClusterSum> sums(shape.rows == 1 ? 300 : 150);
      double beyond = 0, rows = 0;
      for (ClusterSum& sum : sums) {
        sum.n = static_cast<double>(shape.rows);
        // Clustered: a tenth of the sequences has half of its rows beyond.
        const double share = !shape.clustered ? kTolerated : random.uniform() < 0.1 ? 0.5 : 0.0;
        for (std::uint64_t row = 0; row < shape.rows; ++row) sum.sum += random.uniform() < share ? 1 : 0;
        beyond += sum.sum;
        rows += sum.n;
      }
      const MeanTest test = stages::exceedance(sums, kTolerated, kAlpha, run);
      passes += test.p_low <= kAlpha ? 1 : 0;
      violations += test.p_high <= kAlpha ? 1 : 0;
      woodruff += stages::clopper_pearson_upper(static_cast<std::uint64_t>(beyond),
                                                static_cast<std::uint64_t>(rows), kAlpha) <= kTolerated
                      ? 1
                      : 0;
    }
    const auto add = [&](const char* method, const char* quantity, std::uint64_t count, Claim claim,
                         const char* ref) {
      out.push_back({"quantile clauses", method, shape.name, quantity,
                     static_cast<double>(count) / static_cast<double>(runs), runs, kAlpha, claim, ref});
    };
    add("driftgate's rule", "false passes at the limit", passes, Claim::exact, "");
    add("driftgate's rule", "false violations at the limit", violations, Claim::exact, "");
    add("binomial over rows", "false passes at the limit", woodruff, Claim::figure, "");
  }
}

void paired_tasks(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(2'000);
  struct Shape {
    const char* name;
    std::size_t n;
    double lost, won;
  };
  constexpr double kMargin = 0.03;
  for (const Shape& shape : {Shape{"400 tasks, 3% lost and none won", 400, 0.03, 0},
                             Shape{"400 tasks, 5% lost and 2% won", 400, 0.05, 0.02},
                             Shape{"2,000 tasks, 8% lost and 5% won", 2'000, 0.08, 0.05}}) {
    std::uint64_t passes = 0, violations = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      Random random(stages::mix64(effort.seed + 601 + 15'485'863 * run));
      std::vector<stages::PairedOutcome> outcomes(shape.n);
      for (std::size_t i = 0; i < shape.n; ++i) {
        const double u = random.uniform();
        const bool lost = u < shape.lost, won = !lost && u < shape.lost + shape.won;
        outcomes[i] = {.train = !won, .inf = !lost, .cluster = i};
      }
      const MeanTest test = stages::paired_outcomes(outcomes, kMargin, kAlpha, run);
      passes += test.p_high <= kAlpha && test.lower.value_or(-1) > -kMargin ? 1 : 0;
      violations += test.p_low <= kAlpha && test.upper.value_or(1) < -kMargin ? 1 : 0;
    }
    const auto add = [&](const char* quantity, std::uint64_t count) {
      out.push_back({"paired outcomes", "discordant pairs (Clopper–Pearson below 25, z above)", shape.name,
                     quantity, static_cast<double>(count) / static_cast<double>(runs), runs, kAlpha,
                     Claim::approximate, ""});
    };
    add("false passes at the margin", passes);
    add("false violations at the margin", violations);
  }
}

void many_tests(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(4'000);
  constexpr std::size_t kFamily = 30;
  std::uint64_t alone = 0, with_holm = 0, with_e_holm = 0, with_e_bh = 0;
  for (std::uint64_t run = 0; run < runs; ++run) {
    Random random(stages::mix64(effort.seed + 701 + 32'452'843 * run));
    std::vector<double> p(kFamily), e(kFamily);
    const double shared = normal(random);  // slices overlap, so their statistics go together
    for (std::size_t i = 0; i < kFamily; ++i) {
      const double z = 0.7 * shared + std::sqrt(1 - 0.49) * normal(random);
      p[i] = 1 - stages::normal_cdf(z);
      e[i] = std::exp(2 * z - 2);  // a likelihood ratio: mean 1 under the null
    }
    const auto any = [](const std::vector<bool>& rejected) {
      return std::ranges::find(rejected, true) != rejected.end();
    };
    alone += std::ranges::any_of(p, [](double value) { return value <= kAlpha; }) ? 1 : 0;
    with_holm += any(stages::holm(p, kAlpha)) ? 1 : 0;
    with_e_holm += any(stages::e_holm(e, kAlpha)) ? 1 : 0;
    with_e_bh += any(stages::e_bh(e, kAlpha)) ? 1 : 0;
  }
  const auto add = [&](const char* method, std::uint64_t count, Claim claim) {
    out.push_back({"many slices", method, "30 correlated slices without harm",
                   "reports with a false violation", static_cast<double>(count) / static_cast<double>(runs),
                   runs, kAlpha, claim, ""});
  };
  add("each slice alone", alone, Claim::figure);
  add("Holm", with_holm, Claim::exact);
  add("e-Holm", with_e_holm, Claim::exact);
  add("e-BH", with_e_bh, Claim::exact);
}

}  // namespace driftgate::simulation
