#include "stages/clauses/difference_test.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "schema/verdict_rule.hpp"
#include "stages/statistics/random.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Aggregate;
using schema::Metric;
using schema::Verdict;

namespace {

/// Sequences of 10 rows whose entropy by inf is that of train plus `shift` and noise of ± `noise`.
gpu::MeasurementTable corpus(std::size_t count, Metric train, Metric inf, double base, double shift,
                             double noise) {
  Random random(5);
  auto table = make::table();
  table.has_tokens = true;
  for (std::size_t i = 0; i < count; ++i) {
    make::append(table, {});
    auto& metrics = table.sequences.back().metrics;
    const double level = base * (0.5 + random.uniform());
    metrics[make::at(train)] = make::constant(10, level);
    metrics[make::at(inf)] = make::constant(10, level + shift + noise * (2 * random.uniform() - 1));
  }
  return table;
}

schema::Clause clause(Metric metric, std::optional<Aggregate> aggregate, schema::Limits limits) {
  return make::slice_clause("difference", schema::MetricSubject{metric, aggregate}, limits, {});
}

schema::Limits max_delta(double value) {
  schema::Limits limits;
  limits.max_delta = value;
  return limits;
}

schema::ClauseVerdict decide(const gpu::MeasurementTable& table, const schema::Clause& wanted,
                             schema::Means means = schema::Means::approximate) {
  auto contract = make::contract();
  contract.confidence.means = means;
  const auto verdict = decide_clause({&contract, &table, 0.05, 3}, wanted, {}, schema::SliceRole::corpus);
  const auto again = schema::rederive(verdict);
  REQUIRE(again.has_value());
  CHECK(*again == verdict.verdict);
  return verdict;
}

}  // namespace

TEST_CASE("a difference of entropies is held to max_delta in both directions") {
  const auto on = [](double shift) {
    return decide(corpus(600, Metric::entropy_train, Metric::entropy_inf, 2, shift, 0.02),
                  clause(Metric::entropy_inf, Aggregate::sequence_mean, max_delta(0.05)));
  };
  const auto fine = on(0.01);
  CHECK(fine.method == "Gaffke's bound (validity conjectured)");
  CHECK(fine.verdict == Verdict::pass);
  CHECK(fine.limit_kind == "max_delta");
  CHECK(fine.estimate == doctest::Approx(0.01).epsilon(0.2));
  CHECK(*fine.lower < *fine.estimate);
  CHECK(*fine.upper > *fine.estimate);
  CHECK(on(0.1).verdict == Verdict::violated);
  CHECK(on(-0.1).verdict == Verdict::violated);
  CHECK(on(0.05).verdict == Verdict::inconclusive);
  CHECK(on(-0.05).verdict == Verdict::inconclusive);
}

TEST_CASE("kernels whose entropies differ by nothing pass the differences that so many sequences can show") {
  // (1 − δ/ln 256)^400 ≤ 0.05 for δ ≥ 0.0414.
  const auto table = corpus(400, Metric::entropy_train, Metric::entropy_inf, 2, 0, 0);
  const auto within = [&](double delta) {
    return decide(table, clause(Metric::entropy_inf, Aggregate::sequence_mean, max_delta(delta))).verdict;
  };
  CHECK(within(0.042) == Verdict::pass);
  CHECK(within(0.041) == Verdict::inconclusive);
  CHECK(within(1e-6) == Verdict::inconclusive);
}

TEST_CASE("exactly, differences of entropies are bet on over their whole range at every n") {
  for (const int n : {150, 400}) {
    const auto table = corpus(n, Metric::entropy_train, Metric::entropy_inf, 2, 0, 0.02);
    const auto wanted = clause(Metric::entropy_inf, Aggregate::sequence_mean, max_delta(0.5));
    const auto verdict = decide(table, wanted, schema::Means::exact);
    CHECK(verdict.method == "betting, cap 0.99");
    CHECK_FALSE(verdict.approximate);
    CHECK(verdict.verdict == Verdict::pass);
  }
  const auto table = corpus(400, Metric::entropy_train, Metric::entropy_inf, 2, 0.01, 0.02);
  const auto narrow = clause(Metric::entropy_inf, Aggregate::sequence_mean, max_delta(0.05));
  const auto open = decide(table, narrow, schema::Means::exact);
  CHECK(open.verdict == Verdict::inconclusive);
  CHECK(open.message.find("confidence.means: approximate") != std::string::npos);
}

TEST_CASE("a difference of log-probabilities is resampled and called approximate") {
  const auto on = [](double shift) {
    return decide(corpus(120, Metric::logprob_train, Metric::logprob_inf, -1, shift, 0.05),
                  clause(Metric::logprob_inf, Aggregate::sequence_mean, max_delta(0.1)));
  };
  CHECK(on(-0.02).verdict == Verdict::pass);
  CHECK(on(-0.02).approximate);
  CHECK(on(-0.3).verdict == Verdict::violated);
  // The least p-value of both sides is twice that of one, and the record says so.
  CHECK(on(-0.3).p_value == doctest::Approx(1 / (on(-0.3).details.at("replicates") + 1)));
}

TEST_CASE("a difference that asks for no_harm passes where nothing is shown") {
  auto wanted = clause(Metric::entropy_inf, Aggregate::sequence_mean, max_delta(0.05));
  wanted.require = schema::Requirement::no_harm;
  const auto verdict = decide(corpus(400, Metric::entropy_train, Metric::entropy_inf, 2, 0.05, 0.02), wanted);
  CHECK(verdict.verdict == Verdict::pass);
  CHECK(verdict.no_harm_only);
}

TEST_CASE("rows that are not finite violate a difference of entropies") {
  auto table = corpus(400, Metric::entropy_train, Metric::entropy_inf, 2, 0, 0.02);
  table.sequences[7].metrics[make::at(Metric::nonfinite)].add(1);
  CHECK(decide(table, clause(Metric::entropy_inf, Aggregate::sequence_mean, max_delta(0.05))).verdict ==
        Verdict::violated);
}

namespace {

/// Train is calibrated; inf claims `over` more.
gpu::MeasurementTable calibrated(std::size_t count, double over) {
  Random random(11);
  auto table = make::table();
  for (std::size_t i = 0; i < count; ++i) {
    make::append(table, {});
    auto& info = table.infos.back();
    info.confidence_train = 0.3 + 0.4 * random.uniform();
    info.confidence_inf = *info.confidence_train + over;
    info.correct_train = info.correct_inf = random.uniform() < *info.confidence_train;
  }
  return table;
}

}  // namespace

TEST_CASE("ece_drift limits a worsening by max and any change by max_delta") {
  const auto worse_only = clause(Metric::ece_drift, {}, make::max(0.05));
  const auto either_way = clause(Metric::ece_drift, {}, max_delta(0.05));
  CHECK(decide(calibrated(2'000, 0.2), worse_only).verdict == Verdict::violated);
  CHECK(decide(calibrated(2'000, 0.2), either_way).verdict == Verdict::violated);
  CHECK(decide(calibrated(2'000, 0), worse_only).verdict == Verdict::pass);
  CHECK(decide(calibrated(2'000, 0), either_way).verdict == Verdict::pass);
  // A kernel that is better calibrated than the one it was trained by is no worse, and yet another.
  auto better = calibrated(2'000, 0.2);
  for (auto& info : better.infos) std::swap(info.confidence_train, info.confidence_inf);
  CHECK(decide(better, worse_only).verdict == Verdict::pass);
  CHECK(decide(better, either_way).verdict == Verdict::violated);
}

TEST_CASE("a calibration without confidences names the fields that the corpus lacks") {
  auto table = calibrated(300, 0);
  for (auto& info : table.infos) info.confidence_inf.reset();
  const auto verdict = decide(table, clause(Metric::ece_drift, {}, make::max(0.05)));
  CHECK(verdict.verdict == Verdict::error);
  CHECK(verdict.message.find("\"confidence\": {\"train\"") != std::string::npos);
  table = calibrated(300, 0);
  table.infos[0].confidence_inf = 70;
  CHECK(decide(table, clause(Metric::ece_drift, {}, make::max(0.05))).message.find("between 0 and 1") !=
        std::string::npos);
}

TEST_CASE("where the corpus states no confidence, that of the captures' last position is taken") {
  auto table = calibrated(2'000, 0);
  for (std::size_t i = 0; i < table.infos.size(); ++i) {
    auto& info = table.infos[i];
    table.sequences[i].top_train = info.confidence_train;
    table.sequences[i].top_inf = *info.confidence_inf + 0.2;
  }
  const auto wanted = clause(Metric::ece_drift, {}, make::max(0.05));
  CHECK(decide(table, wanted).verdict == Verdict::pass);
  for (auto& info : table.infos) info.confidence_train.reset();  // one alone is no pair
  CHECK(decide(table, wanted).verdict == Verdict::violated);
}

TEST_CASE("too few outcomes leave a calibration inconclusive and say how many it takes") {
  const auto verdict = decide(calibrated(120, 0), clause(Metric::ece_drift, {}, make::max(0.05)));
  CHECK(verdict.verdict == Verdict::inconclusive);
  CHECK(verdict.message.find("at least 150 outcomes") != std::string::npos);
}
