#include <algorithm>
#include <cmath>
#include <string>

#include "schema/verdict_rule.hpp"
#include "stages/statistical_slice.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"
#include "tests/simulation/figure.hpp"
#include "tests/stages/make.hpp"

// Slices against the rest of the corpus, by the stage that decides them (docs/design/statistics.md, "Many
// slices").

namespace driftgate::simulation {
namespace {

using schema::ClauseVerdict;
using schema::Metric;
using schema::SliceRole;
using schema::SliceWhere;
using schema::Verdict;
using stages::Random;

constexpr std::size_t kSequences = 2'000;
constexpr double kTypical = 0.01;
constexpr double kLimit = 0.03;

double normal(Random& random) {
  return stages::normal_quantile(std::clamp(random.uniform(), 1e-16, 1 - 1e-16));
}

/// A corpus whose sequences have log-normal means of scatter 1, one of a kind of them `times` as much.
struct World {
  const char* name;
  std::size_t languages, domains, lengths;
  SliceWhere broken;
  double times = 3;
  std::size_t per_cluster = 1;  ///< sequences that share half of their scatter
  double rare = 0.02;           ///< share of the language "rare"
  double zeros = 0;             ///< share of sequences whose figure is exactly zero
  double broken_zeros = zeros;  ///< the same of broken ones
};

gpu::MeasurementTable draw(const World& world, Random& random) {
  auto table = stages::make::table();
  double shared = 0;
  for (std::size_t i = 0; i < kSequences; ++i) {
    if (i % world.per_cluster == 0) shared = normal(random);
    const double own = normal(random);
    const double scatter = world.per_cluster == 1 ? own : (shared + own) / std::sqrt(2.0);
    // The share of one language is given; the others are even.
    const bool rare = random.uniform() < world.rare;
    const SliceWhere where{{"language", rare ? "rare" : "l" + std::to_string(random.below(world.languages))},
                           {"domain", "d" + std::to_string(random.below(world.domains))},
                           {"length", "p" + std::to_string(random.below(world.lengths))}};
    const bool broken =
        !world.broken.empty() && std::ranges::all_of(world.broken, [&](const auto& condition) {
          return where.at(condition.first) == condition.second;
        });
    const bool equal = world.zeros > 0 && random.uniform() < (broken ? world.broken_zeros : world.zeros);
    const double tv = equal ? 0 : kTypical * std::exp(scatter) * (broken ? world.times : 1);
    stages::make::append(table, {2, std::min(1.0, tv), where});
    if (world.per_cluster > 1) table.infos.back().cluster = "c" + std::to_string(i / world.per_cluster);
  }
  return table;
}

schema::Contract contract(std::optional<double> max_ratio) {
  auto result = stages::make::contract();
  result.slices.dimensions = {"language", "domain", "length"};
  result.slices.min_sequences = 10;
  result.slices.discover = schema::Slices::Discover{2, false, max_ratio};
  result.clauses = {
      stages::make::slice_clause("tv", schema::MetricSubject{Metric::tv, schema::Aggregate::sequence_mean},
                                 stages::make::max(kLimit), {})};
  return result;
}

struct Counts {
  std::uint64_t named = 0;            ///< the broken slice, against the rest
  std::uint64_t by_limit = 0;         ///< the same, against the limit
  std::uint64_t elsewhere = 0;        ///< a slice without any broken sequence, against the rest
  std::uint64_t blocked = 0;          ///< a verdict beyond max_ratio
  double least = HUGE_VAL, most = 0;  ///< slices compared
  double alpha = 0;
};

/// Whether no sequence can be in both.
bool apart(const SliceWhere& a, const SliceWhere& b) {
  return std::ranges::any_of(a, [&](const auto& condition) {
    const auto other = b.find(condition.first);
    return other != b.end() && other->second != condition.second;
  });
}

void count(const World& world, const stages::StageReport& report, Counts& counts) {
  bool named = false;
  bool by_limit = false;
  bool elsewhere = false;
  bool blocked = false;
  for (const ClauseVerdict& verdict : report.clauses) {
    if (verdict.role != SliceRole::discovered || verdict.verdict != Verdict::violated) continue;
    const bool against_rest = verdict.limit_kind == schema::kRatioToRest;
    const bool broken = !world.broken.empty() && verdict.where == world.broken;
    named = named || (against_rest && broken);
    by_limit = by_limit || (!against_rest && broken);
    elsewhere = elsewhere || (against_rest && (world.broken.empty() || apart(verdict.where, world.broken)));
    blocked = blocked || (against_rest && verdict.severity == schema::Severity::hard);
  }
  counts.named += named ? 1 : 0;
  counts.by_limit += by_limit ? 1 : 0;
  counts.elsewhere += elsewhere ? 1 : 0;
  counts.blocked += blocked ? 1 : 0;
  counts.alpha = report.alpha;
  for (const std::string& note : report.notes) {
    const std::size_t end = note.find(" slices of at least 10 sequences were compared");
    if (end == std::string::npos) continue;
    const double slices = std::stod(note.substr(0, end));
    counts.least = std::min(counts.least, slices);
    counts.most = std::max(counts.most, slices);
  }
}

Counts run(const World& world, std::uint64_t runs, std::uint64_t seed, std::optional<double> max_ratio = {}) {
  Random random(seed);
  Counts counts;
  for (std::uint64_t i = 0; i < runs; ++i) {
    stages::StageInputs inputs;
    inputs.seed = random.next();
    count(world, evaluate_statistical_slice(contract(max_ratio), draw(world, random), inputs), counts);
  }
  return counts;
}

std::string described(const World& world, const Counts& counts) {
  return std::string(world.name) + ", " + std::to_string(static_cast<int>(counts.least)) + " to " +
         std::to_string(static_cast<int>(counts.most)) + " slices";
}

double share(std::uint64_t count, std::uint64_t runs) {
  return static_cast<double>(count) / static_cast<double>(runs);
}

/// Corpora of which most sequences are exactly equal.
void mostly_equal(const std::string& experiment, const Effort& effort, Figures& out) {
  const std::string method = "ranks and share above zero, Holm";
  const SliceWhere rare{{"language", "rare"}};
  const std::uint64_t runs = effort.runs(1'000);
  const auto corpus = [&](const char* name, double times, double share_of_rare, double broken_zeros) {
    World world{name, 11, 6, 6, {}};
    world.times = times;
    if (times > 1 || broken_zeros < 0.7) world.broken = rare;
    world.rare = share_of_rare;
    world.zeros = 0.7;
    world.broken_zeros = broken_zeros;
    return world;
  };
  struct Case {
    World world;
    std::optional<double> least;  ///< share of runs in which the slice must be named
  };
  const Case cases[] = {
      {corpus("70% exact zeros, 2% of 2,000 sequences at 3 times", 3, 0.02, 0.7), std::nullopt},
      {corpus("70% exact zeros, 10% of 2,000 sequences at 3 times", 3, 0.1, 0.7), 0.9},
      {corpus("70% exact zeros, 2% of 2,000 sequences above zero 3 times as often", 1, 0.02, 0.1), 0.9}};
  for (const auto& [world, least] : cases) {
    const Counts counts = run(world, runs, effort.seed + 75);
    const std::string scenario = described(world, counts);
    out.push_back({experiment, method, scenario, "named", share(counts.named, runs), runs, least,
                   least ? Claim::at_least : Claim::figure});
    out.push_back({experiment, method, scenario, "a slice without broken sequences named",
                   share(counts.elsewhere, runs), runs, counts.alpha, Claim::exact});
  }
  const World even = corpus("70% exact zeros, no slice differs", 1, 0.02, 0.7);
  const Counts counts = run(even, runs, effort.seed + 76);
  out.push_back({experiment, method, described(even, counts), "a slice named", share(counts.elsewhere, runs),
                 runs, counts.alpha, Claim::exact});
  const World doubled = corpus("70% exact zeros, 2% at exactly max_ratio 2", 2, 0.02, 0.7);
  const Counts at_ratio = run(doubled, runs, effort.seed + 77, 2);
  out.push_back({experiment, method, described(doubled, at_ratio), "blocked", share(at_ratio.blocked, runs),
                 runs, at_ratio.alpha, Claim::exact});
}

}  // namespace

void slices_against_rest(const Effort& effort, Figures& out) {
  const std::string experiment = "slices against the rest";
  const std::string method = "ranks, Holm";
  const SliceWhere rare{{"language", "rare"}};
  const SliceWhere pair{{"domain", "d1"}, {"language", "l1"}};
  const World broken[] = {
      {"2% of 2,000 sequences at 3 times, one value", 11, 6, 6, rare},
      {"2% of 2,000 sequences at 3 times, a pair of values", 9, 5, 6, pair},
      {"2% at 3 times, clusters of two that share half of their scatter", 11, 6, 6, rare, 3, 2}};
  const std::uint64_t runs = effort.runs(1'000);
  for (const World& world : broken) {
    const Counts counts = run(world, runs, effort.seed + 71);
    const std::string scenario = described(world, counts);
    out.push_back({experiment, method, scenario, "named", share(counts.named, runs), runs, 0.9,
                   Claim::at_least, "0.9"});
    out.push_back({experiment, method, scenario, "a slice without broken sequences named",
                   share(counts.elsewhere, runs), runs, counts.alpha, Claim::exact});
    out.push_back({experiment, "betting on the other half, e-BH", scenario,
                   "named against a limit of 3 times", share(counts.by_limit, runs), runs, std::nullopt,
                   Claim::figure});
  }
  const World even[] = {{"no slice differs", 11, 6, 6, {}},
                        {"no slice differs, clusters of four", 11, 6, 6, {}, 1, 4}};
  for (const World& world : even) {
    const Counts counts = run(world, runs, effort.seed + 72);
    out.push_back({experiment, method, described(world, counts), "a slice named",
                   share(counts.elsewhere, runs), runs, counts.alpha, Claim::exact});
  }
  const World twice{"2% at exactly max_ratio 2", 11, 6, 6, rare, 2};
  const Counts at_ratio = run(twice, runs, effort.seed + 73, 2);
  out.push_back({experiment, method, described(twice, at_ratio), "blocked", share(at_ratio.blocked, runs),
                 runs, at_ratio.alpha, Claim::exact});
  const World tenfold{"2% at 10 times, max_ratio 2", 11, 6, 6, rare, 10};
  const Counts beyond = run(tenfold, runs, effort.seed + 74, 2);
  out.push_back({experiment, method, described(tenfold, beyond), "blocked", share(beyond.blocked, runs), runs,
                 0.9, Claim::at_least});
  mostly_equal(experiment, effort, out);
}

}  // namespace driftgate::simulation
