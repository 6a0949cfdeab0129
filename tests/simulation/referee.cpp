#include <algorithm>
#include <array>
#include <string>

#include "stages/clauses/metric_test.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/mean_test.hpp"
#include "tests/simulation/figure.hpp"
#include "tests/simulation/referee_worlds.hpp"

namespace driftgate::simulation {
namespace {

using stages::ClusterSum;
using stages::Random;

constexpr double kAlpha = 0.05;
constexpr std::size_t kSequences = 400;
constexpr double kClip = 0.1;

/// What a test says of a limit: a small p-value of `low` passes, one of `high` violates.
struct PValues {
  double low = 1, high = 1;
};

using Sample = std::vector<RefereeSequence>;

/// A claim on fixed data: the figure of a world that it is about, and the decision of a sample on a limit of
/// it.
struct FixedClaim {
  const char* name;
  double (*truth)(const RefereeWorld&);
  PValues (*decide)(const RefereeWorld&, const Sample&, double limit, std::uint64_t seed);
  double most = 1;  ///< the largest value: at it, as at 0, one side has no limit to set
};

PValues bets(const std::vector<ClusterSum>& clusters, double limit, const stages::ValueRange& range,
             std::uint64_t seed) {
  return {stages::betting_p_value(clusters, limit, range, false, seed),
          stages::betting_p_value(clusters, limit, range, true, seed)};
}

template <typename Part>
std::vector<ClusterSum> parts(const Sample& sample, Part part) {
  std::vector<ClusterSum> clusters;
  clusters.reserve(sample.size());
  for (const RefereeSequence& sequence : sample) clusters.push_back(part(sequence));
  return clusters;
}

ClusterSum rows_above(const RefereeSequence& s) {
  return {static_cast<double>(s.rows), static_cast<double>(s.above)};
}

PValues average_sequence(const RefereeWorld&, const Sample& sample, double limit, std::uint64_t seed) {
  auto clusters = parts(sample, rows_above);
  const bool rows_within = stages::ratio_mean(clusters) <= limit;
  stages::count_once(clusters);
  PValues found = bets(clusters, limit, {}, seed);
  if (!rows_within) found.low = 1;  // docs/design/statistics.md, "Quantiles"
  return found;
}

PValues all_rows(const RefereeWorld& world, const Sample& sample, double limit, std::uint64_t seed) {
  return bets(parts(sample, rows_above), limit, {0, 1, static_cast<double>(world.longest)}, seed);
}

PValues share_of_sequences(const RefereeWorld& world, const Sample& sample, double limit, std::uint64_t) {
  const auto above = static_cast<std::uint64_t>(std::ranges::count_if(sample, [&](const RefereeSequence& s) {
    return stages::mean_beyond(s.sum, s.rows, {world.sequence_limit, true});
  }));
  return {stages::binomial_at_most(above, sample.size(), limit),
          stages::binomial_at_least(above, sample.size(), limit)};
}

PValues mean_once(const RefereeWorld&, const Sample& sample, double limit, std::uint64_t seed) {
  return bets(parts(sample,
                    [](const RefereeSequence& s) {
                      return ClusterSum{1, s.sum / s.rows};
                    }),
              limit, {}, seed);
}

PValues mean_clipped(const RefereeWorld&, const Sample& sample, double limit, std::uint64_t seed) {
  return bets(parts(sample,
                    [](const RefereeSequence& s) {
                      return ClusterSum{1, std::min(s.sum / s.rows, kClip)};
                    }),
              limit, {0, kClip, 1}, seed);
}

PValues mean_tokens(const RefereeWorld& world, const Sample& sample, double limit, std::uint64_t seed) {
  return bets(parts(sample,
                    [](const RefereeSequence& s) {
                      return ClusterSum{static_cast<double>(s.rows), s.sum};
                    }),
              limit, {0, 1, static_cast<double>(world.longest)}, seed);
}

constexpr std::array kClaims{
    FixedClaim{"quantile over an average sequence", [](const RefereeWorld& w) { return w.share_average; },
               average_sequence},
    FixedClaim{"quantile over rows, max_tokens known", [](const RefereeWorld& w) { return w.share_rows; },
               all_rows},
    FixedClaim{"quantile over sequences", [](const RefereeWorld& w) { return w.share_sequences; },
               share_of_sequences},
    FixedClaim{"sequence_mean", [](const RefereeWorld& w) { return w.mean_once; }, mean_once},
    FixedClaim{"sequence_mean with clip: 0.1", [](const RefereeWorld& w) { return w.mean_clipped(kClip); },
               mean_clipped, kClip},
    FixedClaim{"mean over tokens, max_tokens known", [](const RefereeWorld& w) { return w.mean_tokens; },
               mean_tokens}};

struct Worst {
  double rate = -1;
  std::string_view world;

  void see(double found, std::string_view name) {
    if (found > rate) *this = {found, name};
  }
};

}  // namespace

void referee_fixed_data(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(1'000);
  for (const FixedClaim& claim : kClaims) {
    Worst pass, violation;
    for (const RefereeWorld& world : referee_worlds()) {
      const double limit = claim.truth(world);
      if (limit <= 0 || limit >= claim.most) continue;
      std::uint64_t passes = 0, violations = 0;
      for (std::uint64_t run = 0; run < runs; ++run) {
        Random random(stages::mix64(effort.seed + 801 + 179'424'673 * run));
        const PValues found = claim.decide(world, world.draw(random, kSequences), limit, run);
        passes += found.low <= kAlpha ? 1 : 0;
        violations += found.high <= kAlpha ? 1 : 0;
      }
      pass.see(static_cast<double>(passes) / static_cast<double>(runs), world.name);
      violation.see(static_cast<double>(violations) / static_cast<double>(runs), world.name);
    }
    const auto add = [&](const char* quantity, const Worst& worst) {
      out.push_back({"worlds of a referee", claim.name,
                     std::string("400 sequences, worst world: ") + std::string(worst.world), quantity,
                     worst.rate, runs, kAlpha, Claim::exact, ""});
    };
    add("false passes at the limit", pass);
    add("false violations at the limit", violation);
  }
}

void referee_long_sequences(const Effort& effort, Figures& out) {
  // p90 of tv at most 0.1, where 4% of the sequences have 200 tokens of tv 0.3 and the rest 8 without drift.
  const std::uint64_t runs = effort.runs(200);
  constexpr double kTolerated = 0.1;
  struct Kind {
    const char* name;
    bool all_rows;
  };
  for (const Kind& kind : {Kind{"quantile over an average sequence", false},
                           Kind{"quantile over rows, max_tokens known", true}}) {
    std::uint64_t passes = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      Random random(stages::mix64(effort.seed + 901 + 86'028'121 * run));
      std::vector<ClusterSum> clusters(kSequences);
      for (ClusterSum& cluster : clusters) {
        const bool is_long = random.uniform() < 0.04;
        cluster = is_long ? ClusterSum{200, 200} : ClusterSum{8, 0};
      }
      const stages::ValueRange range{0, 1, kind.all_rows ? 200.0 : 1.0};
      const bool rows_within = stages::ratio_mean(clusters) <= kTolerated;
      if (!kind.all_rows) stages::count_once(clusters);
      const bool proven = stages::betting_p_value(clusters, kTolerated, range, false, run) <= kAlpha;
      passes += proven && (kind.all_rows || rows_within) ? 1 : 0;
    }
    out.push_back({"worlds of a referee", kind.name,
                   "p90 at most 0.1, 4% of 400 sequences have 200 tokens beyond it, the rest 8 within",
                   "passes", static_cast<double>(passes) / static_cast<double>(runs), runs, 0.0, Claim::exact,
                   ""});
  }
}

}  // namespace driftgate::simulation
