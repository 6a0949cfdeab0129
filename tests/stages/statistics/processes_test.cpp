#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "stages/statistics/failure_rate_process.hpp"
#include "stages/statistics/label_process.hpp"
#include "stages/statistics/quantiles.hpp"
#include "stages/statistics/random.hpp"
#include "stages/statistics/split_guard.hpp"

using namespace driftgate::stages;

TEST_CASE("one candidate failure at an even split is worth the mean of the likelihood ratios") {
  LabelProcess process(1.0);
  CHECK(process.e_value() == 1.0);
  CHECK(process.update(true, 0.5));
  double expected = 0;
  for (int k = 1; k <= 16; ++k) {
    const double r = std::pow(16.0, k / 16.0);
    expected += r / (r + 1) / 0.5 / 16;
  }
  CHECK(process.e_value() == doctest::Approx(expected).epsilon(1e-12));
}

TEST_CASE("a failure says nothing as a ratio when the incumbent has under five percent") {
  LabelProcess process(1.0);
  CHECK_FALSE(process.update(true, 0.951));
  CHECK_FALSE(process.update(true, 0.0));
  CHECK(process.update(true, 0.95));
  CHECK(process.failures() == 1);
}

TEST_CASE("the expectation of a label's factor is one at the null and below it under less harm") {
  for (const double share : {0.01, 0.1, 0.5, 0.9}) {
    for (const double ratio : {1.0, 1.5}) {
      LabelProcess yes(ratio);
      LabelProcess no(ratio);
      yes.update(true, share);
      no.update(false, share);
      const double p = share * ratio / (share * ratio + 1 - share);
      CHECK(p * yes.e_value() + (1 - p) * no.e_value() == doctest::Approx(1.0).epsilon(1e-12));
      const double less = share * 0.5 / (share * 0.5 + 1 - share);
      CHECK(less * yes.e_value() + (1 - less) * no.e_value() < 1);
    }
  }
}

TEST_CASE("without failures a single cap of 0.99 would take 302 keys at one percent and the mixture 371") {
  FailureRateProcess process(0.01);
  std::uint64_t at_twenty = 0;
  while (process.e_proof() < 20) {
    process.update(false);
    ++at_twenty;
  }
  // The floor is 299 keys (all-in bets); ½·1.01^n at cap 0.99 and the half-capped part decide the rest.
  CHECK(at_twenty > 302);
  CHECK(at_twenty < 375);
  CHECK(process.failures() == 0);
}

TEST_CASE("a healthy candidate advances from the demo's first step after about a hundred keys") {
  CHECK(keys_to_advance(0.05, 0.05, 1) >= 59);
  CHECK(keys_to_advance(0.05, 0.05, 1) <= 75);
  CHECK(keys_to_advance(0.05, 0.025, 4) <= 120);
}

TEST_CASE("each factor of the absolute process has expectation one at the null") {
  FailureRateProcess process(0.05);
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    FailureRateProcess failed = process;
    FailureRateProcess fine = process;
    failed.update(true);
    fine.update(false);
    CHECK(0.05 * failed.e_proof() + 0.95 * fine.e_proof() ==
          doctest::Approx(process.e_proof()).epsilon(1e-10));
    CHECK(0.05 * failed.e_harm() + 0.95 * fine.e_harm() == doctest::Approx(process.e_harm()).epsilon(1e-10));
    process.update(random.uniform() < 0.05);
  }
}

TEST_CASE("a max of zero is never proven and the first failure breaks it") {
  FailureRateProcess process(0);
  for (int i = 0; i < 1000; ++i) process.update(false);
  CHECK(process.e_proof() == 1.0);
  CHECK(process.e_harm() == 1.0);
  process.update(true);
  CHECK(std::isinf(process.e_harm()));
}

TEST_CASE("a failure that counts half moves the evidence half as far") {
  LabelProcess whole(1), half(1);
  half.update(true, 0.5, 0.5);
  // f_r(1)/f_1(1) = 2r/(r + 1), and half of the failure is its root.
  double mean = 0;
  for (int k = 1; k <= 16; ++k) mean += std::sqrt(2 * std::exp2(k / 4.0) / (std::exp2(k / 4.0) + 1)) / 16;
  CHECK(half.e_value() == doctest::Approx(mean).epsilon(1e-12));
  whole.update(true, 0.5);
  CHECK(whole.e_value() > half.e_value());
  CHECK(half.failures() == 1);
}

TEST_CASE("two keys on the candidate at an even split are worth three halves to the split guard") {
  SplitGuard guard;
  guard.update(true, 5'000);
  CHECK(guard.e_value() == doctest::Approx(1.0).epsilon(1e-12));
  guard.update(true, 5'000);
  // B(5/2, 1/2)/B(1/2, 1/2) = 3/8, against 1/4.
  CHECK(guard.e_value() == doctest::Approx(1.5).epsilon(1e-12));
}

TEST_CASE("a key on an arm without share is an alarm at once") {
  SplitGuard guard;
  guard.update(false, 0);
  CHECK(guard.e_value() == 1.0);
  guard.update(true, 0);
  CHECK(std::isinf(guard.e_value()));
}

TEST_CASE("order-statistic limits of ten values are those of the binomial table") {
  const std::vector<double> sorted{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  // P(Bin(10, ½) ≤ 1) = 11/1024 ≤ 0.05 < P(≤ 2) = 56/1024: the limits are the 2nd and the 9th value.
  const QuantileLimits limits = order_statistic_limits(sorted, 0.5, 0.05);
  CHECK(limits.estimate == 5);
  CHECK(limits.lower == 2);
  CHECK(limits.upper == 9);
}

TEST_CASE("too few values leave a high quantile without an upper limit") {
  const std::vector<double> sorted{1, 2, 3};
  const QuantileLimits limits = order_statistic_limits(sorted, 0.95, 0.05);
  CHECK(std::isinf(limits.upper));
  CHECK(limits.estimate == 3);
}

TEST_CASE("the confidence sequence of a quantile narrows around it") {
  QuantileSequence sequence;
  Random random(5);
  for (int i = 0; i < 5000; ++i) sequence.add(100 + 100 * random.uniform());
  const QuantileLimits limits = sequence.limits(0.5, 0.05);
  CHECK(limits.lower > 140);
  CHECK(limits.lower < 150);
  CHECK(limits.upper > 150);
  CHECK(limits.upper < 160);
}

TEST_CASE("a process restored from its state goes on with the same numbers") {
  Random random(9);
  LabelProcess label(1.5);
  FailureRateProcess rate(0.05);
  SplitGuard guard;
  QuantileSequence quantile;
  for (int i = 0; i < 500; ++i) {
    label.update(random.uniform() < 0.3, 0.25);
    rate.update(random.uniform() < 0.03);
    guard.update(random.uniform() < 0.1, 1'000);
    quantile.add(random.uniform() * 50);
    label = LabelProcess::from_json(nlohmann::json::parse(label.to_json().dump()), 1.5);
    rate = FailureRateProcess::from_json(nlohmann::json::parse(rate.to_json().dump()), 0.05);
    guard = SplitGuard::from_json(nlohmann::json::parse(guard.to_json().dump()));
    quantile = QuantileSequence::from_json(nlohmann::json::parse(quantile.to_json().dump()));
  }
  Random again(9);
  LabelProcess label2(1.5);
  FailureRateProcess rate2(0.05);
  SplitGuard guard2;
  QuantileSequence quantile2;
  for (int i = 0; i < 500; ++i) {
    label2.update(again.uniform() < 0.3, 0.25);
    rate2.update(again.uniform() < 0.03);
    guard2.update(again.uniform() < 0.1, 1'000);
    quantile2.add(again.uniform() * 50);
  }
  CHECK(label.e_value() == label2.e_value());
  CHECK(rate.e_proof() == rate2.e_proof());
  CHECK(rate.e_harm() == rate2.e_harm());
  CHECK(guard.e_value() == guard2.e_value());
  CHECK(quantile.limits(0.9, 0.05).upper == quantile2.limits(0.9, 0.05).upper);
}
