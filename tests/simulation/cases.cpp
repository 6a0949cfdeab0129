#include "tests/simulation/cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "stages/dependence/block_process.hpp"
#include "stages/dependence/count_scores.hpp"
#include "stages/dependence/dispersion_process.hpp"
#include "stages/dependence/sign_process.hpp"
#include "stages/dependence/wander.hpp"
#include "stages/greedy_agreement.hpp"
#include "stages/guard/e_detector.hpp"
#include "stages/shadow_runtime.hpp"
#include "stages/statistics/betting_martingale.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/failure_rate_process.hpp"
#include "stages/statistics/label_process.hpp"
#include "stages/statistics/log_mean_sequence.hpp"
#include "stages/statistics/mean_test.hpp"
#include "stages/statistics/multiple.hpp"
#include "stages/statistics/paired.hpp"
#include "stages/statistics/quantiles.hpp"
#include "stages/statistics/random.hpp"
#include "stages/statistics/split_guard.hpp"

namespace driftgate::simulation {
namespace {

using nlohmann::json;
using stages::ClusterSum;
using stages::Random;

constexpr double kAlpha = 0.05;

void print(const char* method, json inputs, json outputs) {
  const json line = {{"method", method}, {"in", std::move(inputs)}, {"out", std::move(outputs)}};
  std::printf("%s\n", line.dump().c_str());
}

json mean_json(const stages::MeanTest& test) {
  return {{"estimate", test.estimate},
          {"lower", test.lower.value_or(NAN)},
          {"upper", test.upper.value_or(NAN)},
          {"p_low", test.p_low},
          {"p_high", test.p_high}};
}

void means(Random& random) {
  for (int i = 0; i < 20; ++i) {
    std::vector<ClusterSum> sums(5 + random.below(200));
    json clusters = json::array();
    for (ClusterSum& sum : sums) {
      sum.n = static_cast<double>(1 + random.below(40));
      sum.sum = sum.n * std::min(1.0, -0.1 * std::log1p(-random.uniform()));
      clusters.push_back({sum.n, sum.sum});
    }
    const double tau = 0.05 + 0.15 * random.uniform();
    const std::uint64_t seed = random.next();
    json in = {{"clusters", clusters}, {"tau", tau}, {"most", 64}, {"seed", std::to_string(seed)}};
    print("betting_mean", in, mean_json(stages::betting_mean(sums, tau, {0, 1, 64}, kAlpha, seed)));
    json once = json::array();
    for (const ClusterSum& sum : sums) once.push_back({1, sum.sum / sum.n});
    stages::count_once(sums);
    in["clusters"] = once;
    in["most"] = 1;
    print("betting_once", in, mean_json(stages::betting_mean(sums, tau, {}, kAlpha, seed)));
  }
}

void gaffke(Random& random) {
  for (int i = 0; i < 20; ++i) {
    std::vector<ClusterSum> sums(1 + random.below(16));
    json values = json::array();
    for (ClusterSum& sum : sums) {
      const double drift = std::min(1.0, -0.1 * std::log1p(-random.uniform()));
      sum = {1, std::vector{0.0, 0.125, drift, drift}[random.below(4)]};
      values.push_back(sum.sum);
    }
    const double tau = 0.05 + 0.3 * random.uniform();
    print("gaffke", {{"values", values}, {"tau", tau}, {"alpha", kAlpha}},
          mean_json(stages::gaffke_mean(sums, tau, {}, kAlpha)));
  }
}

void shares(Random& random) {
  for (int i = 0; i < 30; ++i) {
    const std::uint64_t n = 1 + random.below(2'000);
    const std::uint64_t k = random.below(n + 1) / (1 + random.below(20));
    print("clopper_pearson", {{"k", k}, {"n", n}, {"alpha", kAlpha}},
          {{"lower", stages::clopper_pearson_lower(k, n, kAlpha)},
           {"upper", stages::clopper_pearson_upper(k, n, kAlpha)}});
  }
}

void paired(Random& random) {
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t n = 100 + random.below(900);
    const double lost = 0.08 * random.uniform(), won = 0.05 * random.uniform();
    std::vector<stages::PairedOutcome> outcomes(n);
    std::uint64_t b = 0, c = 0;
    for (std::uint64_t j = 0; j < n; ++j) {
      const double u = random.uniform();
      const bool is_lost = u < lost, is_won = !is_lost && u < lost + won;
      outcomes[j] = {.train = !is_won, .inf = !is_lost, .cluster = j};
      b += is_lost ? 1 : 0;
      c += is_won ? 1 : 0;
    }
    const auto test = stages::paired_outcomes(outcomes, 0.03, kAlpha, 1);
    print("paired", {{"b", b}, {"c", c}, {"n", n}, {"alpha", kAlpha}},
          {{"lower", test.lower.value_or(NAN)}, {"upper", test.upper.value_or(NAN)}});
  }
}

void processes(Random& random) {
  for (int i = 0; i < 20; ++i) {
    const double ratio = 1 + random.uniform();
    stages::LabelProcess labels(ratio);
    json failures = json::array();
    for (int j = 0; j < 200; ++j) {
      const double share = std::vector{0.01, 0.05, 0.25, 0.5}[random.below(4)];
      const bool candidate = random.uniform() < 1.5 * share;
      const double weight = 1 / (1 + 3 * random.uniform());
      labels.update(candidate, share, weight);
      failures.push_back({candidate, share, weight});
    }
    print("label", {{"ratio", ratio}, {"failures", failures}}, {{"e", labels.e_value()}});

    const double max = 0.01 + 0.1 * random.uniform();
    stages::FailureRateProcess rate(max);
    json keys = json::array();
    for (int j = 0; j < 300; ++j) {
      const bool failed = random.uniform() < max;
      rate.update(failed);
      keys.push_back(failed ? 1 : 0);
    }
    print("failure_rate", {{"max", max}, {"keys", keys}},
          {{"e_proof", rate.e_proof()}, {"e_harm", rate.e_harm()}});

    stages::SplitGuard guard;
    json counts = json::array();
    for (const std::uint32_t share_bp : {100U, 2'500U}) {
      std::uint64_t ones = 0;
      const std::uint64_t all = 100 + random.below(2'000);
      for (std::uint64_t j = 0; j < all; ++j) {
        const bool candidate = random.uniform() < share_bp / 10'000.0;
        guard.update(candidate, share_bp);
        ones += candidate ? 1 : 0;
      }
      counts.push_back({share_bp, ones, all});
    }
    print("split_guard", {{"counts", counts}}, {{"e", guard.e_value()}});
  }
}

std::uint64_t binomial(Random& random, std::uint64_t n, double p) {
  std::uint64_t k = 0;
  for (std::uint64_t i = 0; i < n; ++i) k += random.uniform() < p ? 1 : 0;
  return k;
}

void blocks(Random& random) {
  for (int i = 0; i < 20; ++i) {
    const double ratio = 1 + random.uniform();
    const double regression = 0.5 + 3 * random.uniform();
    const double inflation = 3 * random.uniform();
    stages::BlockProcess process(ratio);
    stages::SignProcess signs(inflation);
    json all = json::array();
    for (std::uint64_t block = 0, count = 25 + random.below(120); block < count; ++block) {
      stages::BlockCounts counts{random.below(60), random.below(200)};
      counts.failed_candidate = binomial(random, counts.candidate, 0.02 * regression);
      counts.failed_incumbent = binomial(random, counts.incumbent, 0.02);
      process.add(counts);
      signs.add(counts);
      all.push_back({counts.candidate, counts.incumbent, counts.failed_candidate, counts.failed_incumbent});
    }
    print("blocks", {{"blocks", all}, {"ratio", ratio}, {"excess", inflation}},
          {{"e", process.e_value(inflation)}, {"seen", process.ratio().value_or(NAN)}});
    print(
        "signs", {{"blocks", all}, {"inflation", inflation}},
        {{"e", signs.e_value()}, {"up", signs.up()}, {"down", signs.down()}, {"own", signs.own_inflation()}});
  }
}

void wander(Random& random) {
  for (int i = 0; i < 10; ++i) {
    stages::Wander process;
    stages::CountScores scores;
    json requests = json::array();
    std::int64_t at = 1'000'000'000'000;
    const double swing = 0.8 * random.uniform();
    for (int request = 0; request < 3'000; ++request) {
      at += static_cast<std::int64_t>(random.below(900'000));
      const double share = request < 2'000 ? 1 : 0.5;
      const bool failed = random.uniform() < 0.05 * (1 + swing * std::sin(1e-8 * static_cast<double>(at)));
      process.observe(at, failed ? 1 : 0, share);
      scores.observe(at, failed);
      requests.push_back({at, failed ? 1 : 0, share});
    }
    const auto excess = process.excess();
    print("wander", {{"requests", requests}},
          {{"excess", excess.excess},
           {"window_s", excess.window_s},
           {"deviations", excess.deviations},
           {"covered_s", process.covered_s()}});
    print("scores", {{"requests", requests}}, {{"inflation", scores.inflation(12'000'000)}});
  }
}

void dispersion(Random& random) {
  for (int i = 0; i < 20; ++i) {
    stages::DispersionProcess process;
    json requests = json::array();
    std::int64_t at = static_cast<std::int64_t>(random.below(1'000'000'000));
    const double stalled = 0.3 * random.uniform();
    for (int request = 0; request < 800; ++request) {
      at += static_cast<std::int64_t>(random.below(1'500'000));
      const bool stalls = at / 1'000'000 % 100 < 3;
      const bool failed = random.uniform() < (stalls ? stalled : 0.03);
      process.observe(at, failed);
      requests.push_back({at, failed ? 1 : 0});
    }
    print("dispersion", {{"requests", requests}}, {{"e", process.e_value()}});
  }
}

void bets(Random& random) {
  for (int i = 0; i < 20; ++i) {
    stages::BettingMartingale martingale(kAlpha);
    stages::LogMeanSequence log_mean;
    json xs = json::array(), values = json::array();
    const double m = 0.1 + 0.4 * random.uniform();
    for (int j = 0; j < 300; ++j) {
      const double x = random.uniform() * random.uniform() * 1.2;
      martingale.update(std::min(x, 1.0), m);
      xs.push_back(std::min(x, 1.0));
    }
    print("betting_martingale", {{"x", xs}, {"m", m}, {"alpha", kAlpha}}, {{"e", martingale.e_value()}});
    for (int j = 0; j < 600; ++j) {
      const double value = 5 + 400 * random.uniform() * random.uniform();
      log_mean.add(value);
      values.push_back(value);
    }
    const auto limits = log_mean.limits(kAlpha, 1'000);
    print("log_mean", {{"values", values}, {"planned", 1'000}, {"alpha", kAlpha}},
          {{"estimate", limits.estimate}, {"lower", limits.lower}, {"upper", limits.upper}});
  }
}

void orders(Random& random) {
  for (int i = 0; i < 20; ++i) {
    std::vector<double> values(30 + random.below(500));
    for (double& value : values) value = 100 * random.uniform();
    std::ranges::sort(values);
    const double p = std::vector{0.5, 0.9, 0.95, 0.99}[random.below(4)];
    const auto limits = stages::order_statistic_limits(values, p, kAlpha);
    const auto finite = [](double x) { return std::isfinite(x) ? json(x) : json(nullptr); };
    print("order_statistics", {{"sorted", values}, {"p", p}, {"alpha", kAlpha}},
          {{"lower", finite(limits.lower)}, {"upper", finite(limits.upper)}});
    std::vector<double> ps(15), es(15);
    for (double& value : ps) value = random.uniform() * random.uniform() * 0.1;
    for (double& value : es) value = std::exp(6 * random.uniform());
    const auto flags = [](const std::vector<bool>& rejected) {
      json list = json::array();
      for (const bool one : rejected) list.push_back(one);
      return list;
    };
    print("holm", {{"p", ps}, {"alpha", kAlpha}}, {{"rejected", flags(stages::holm(ps, kAlpha))}});
    print("e_holm", {{"e", es}, {"alpha", kAlpha}}, {{"rejected", flags(stages::e_holm(es, kAlpha))}});
    print("e_bh", {{"e", es}, {"alpha", kAlpha}}, {{"rejected", flags(stages::e_bh(es, kAlpha))}});
  }
}

void detectors(Random& random) {
  for (int i = 0; i < 20; ++i) {
    const double limit = 0.005 + 0.2 * random.uniform();
    const bool events = i % 2 == 0;
    stages::EDetector detector(limit, events ? stages::event_bets(limit) : stages::share_bets());
    json values = json::array();
    for (int t = 0; t < 150; ++t) {
      const double u = random.uniform();
      const double value = events ? (u < 1.5 * limit ? 1 : 0) : std::min(1.0, 4 * limit * u * u);
      const double start = 1e-3 * random.uniform();  // far from the largest sum that a detector keeps
      detector.observe(value, start, t);
      values.push_back({value, start});
    }
    print("e_detector", {{"limit", limit}, {"events", events}, {"values", values}},
          {{"sum", detector.sum()}, {"largest", detector.largest()}});
  }
}

/// Prompts of which some have answers that differ, and several of one key in every other case.
void greedy(Random& random) {
  struct Wanted {
    schema::Metric metric;
    std::optional<schema::Aggregate> aggregate;
    double limit;
  };
  for (int i = 0; i < 20; ++i) {
    std::vector<stages::ShadowPair> pairs(20 + random.below(150));
    std::vector<const stages::ShadowPair*> all;
    json prompts = json::array();
    const double differing = 0.4 * random.uniform();
    for (stages::ShadowPair& pair : pairs) {
      pair.key_hash = i % 2 == 0 ? all.size() : random.below(60);
      const auto longest = static_cast<std::uint32_t>(1 + random.below(schema::kGreedyTokens));
      const bool differs = random.uniform() < differing;
      const std::uint32_t equal = differs ? static_cast<std::uint32_t>(random.below(longest)) : longest;
      pair.greedy = stages::GreedyAgreement{equal, longest};
      prompts.push_back({pair.key_hash, equal, longest});
      all.push_back(&pair);
    }
    const Wanted wanted[] = {
        {schema::Metric::prefix_agreement, schema::Aggregate::sequence_mean, 0.6 + 0.35 * random.uniform()},
        {schema::Metric::first_divergence, schema::Aggregate::sequence_mean, 16 + 12 * random.uniform()},
        {schema::Metric::first_divergence, schema::Aggregate::p50, 1 + 20 * random.uniform()},
        {schema::Metric::divergence_rate, std::nullopt, 0.05 + 0.3 * random.uniform()}};
    for (const Wanted& one : wanted) {
      schema::Clause clause;
      clause.subject = schema::MetricSubject{one.metric, one.aggregate, {}};
      (one.aggregate ? clause.limits.min : clause.limits.max) = one.limit;
      schema::ClauseVerdict verdict;
      verdict.alpha = kAlpha;
      const std::uint64_t seed = random.next();
      verdict = stages::decide_greedy(clause, all, kAlpha, seed, std::move(verdict));
      print("greedy",
            {{"prompts", prompts},
             {"metric", schema::to_string(one.metric)},
             {"median", one.aggregate == schema::Aggregate::p50},
             {"limit", one.limit},
             {"seed", std::to_string(seed)}},
            {{"estimate", verdict.estimate.value_or(NAN)},
             {"p_harm", verdict.p_value.value_or(NAN)},
             {"p_proof", verdict.details.at("p_proof")}});
    }
  }
}

}  // namespace

void print_cases() {
  Random random(20'260'101);
  means(random);
  shares(random);
  paired(random);
  processes(random);
  bets(random);
  orders(random);
  blocks(random);
  dispersion(random);
  wander(random);
  detectors(random);
  greedy(random);
  gaffke(random);
}

}  // namespace driftgate::simulation
