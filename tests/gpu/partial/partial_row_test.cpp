#include "gpu/partial/partial_row.hpp"

#include <doctest/doctest.h>

#include "tests/gpu/partial_pair.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

/// Rounding of the sums of the truth itself, in double.
constexpr double kTruthError = 1e-12;

Interval of(const PartialRow& row, Metric metric) {
  return row.bounds[static_cast<std::size_t>(metric)];
}

/// A row as two engines would report it.
struct Case {
  TruePair pair;
  std::vector<ListedToken> train, inf;
  PartialInput input;
  Rounding rounding{};
};

/// Lists of the two kernels, each with k tokens of its own, and the target token appended or not.
void list_top(std::mt19937_64& random, Case& out) {
  const std::size_t vocabulary = out.pair.p.size();
  const std::size_t k_train = 1 + random() % vocabulary,
                    k_inf = random() % 3 == 0 ? 1 + random() % vocabulary : k_train;
  const std::int64_t appended = random() % 2 == 0 ? *out.input.token : -1;
  out.train = top_list(out.pair.p, k_train, out.rounding, appended);
  out.inf = top_list(out.pair.q, k_inf, out.rounding, appended);
  out.input.columns = static_cast<std::uint32_t>(std::max(k_train, k_inf) + (appended >= 0 ? 1 : 0));
}

void list_matched(std::mt19937_64& random, Case& out) {
  std::vector<std::size_t> ids;
  for (std::size_t v = 0; v < out.pair.p.size(); ++v) {
    if (random() % 3 != 0) ids.push_back(v);
  }
  out.train = matched_list(out.pair.p, ids, out.rounding);
  out.inf = matched_list(out.pair.q, ids, out.rounding);
  out.input.columns = static_cast<std::uint32_t>(ids.size());
}

Case random_partial(std::mt19937_64& random) {
  Case out;
  const std::size_t vocabulary = 1 + random() % 24;
  out.pair = random_pair(random, vocabulary);
  out.rounding = std::array{Rounding::none, Rounding::none, Rounding::bf16, Rounding::grid}[random() % 4];
  out.input.mode = std::array{CaptureMode::topk, CaptureMode::topk, CaptureMode::matched,
                              CaptureMode::realised}[random() % 4];
  out.input.vocabulary = random() % 3 == 0 ? 0 : static_cast<std::uint32_t>(vocabulary);
  out.input.top_k = 1 + static_cast<std::uint32_t>(random() % 8);
  out.input.token = static_cast<std::int64_t>(random() % vocabulary);
  const auto at = static_cast<std::size_t>(*out.input.token);
  if (out.input.mode == CaptureMode::realised || random() % 2 == 0) {
    out.input.train.target_logprob = stored_logprob(out.pair.p[at], out.rounding);
    out.input.inf.target_logprob = stored_logprob(out.pair.q[at], out.rounding);
  }
  if (out.input.mode == CaptureMode::topk) list_top(random, out);
  if (out.input.mode == CaptureMode::matched) list_matched(random, out);
  std::ranges::shuffle(out.train, random);
  out.input.train.error = out.input.inf.error = error_for(out.rounding);
  return out;
}

PartialRow measure_case(Case& one) {
  one.input.train.list = one.train;
  one.input.inf.list = one.inf;
  return measure_partial_row(one.input);
}

}  // namespace

TEST_CASE("the true figures are within their bounds for random pairs in every mode") {
  constexpr std::uint64_t kSeed = 20261121;
  constexpr int kCases = 100'000;
  std::mt19937_64 random(kSeed);
  double tv_width = 0, tv_lower = 0, tv_truth = 0;
  int exact_flips = 0, flips = 0;
  for (int i = 0; i < kCases; ++i) {
    Case one = random_partial(random);
    const PartialRow row = measure_case(one);
    const std::vector<double> truth = truth_of(one.pair, one.input.top_k);
    for (const Metric metric : bounded_metrics(one.input.mode)) {
      const Interval bounds = of(row, metric);
      if (metric == Metric::logit_max_abs) continue;  // half the span, whatever constant was added
      const double value = truth[static_cast<std::size_t>(metric)];
      const double slack = kTruthError * std::max(1.0, std::abs(value));
      const bool holds = bounds.lower <= value + slack && value <= bounds.upper + slack;
      if (holds && bounds.lower <= bounds.upper) continue;
      INFO("seed ", kSeed, ", case ", i, ", mode ", to_string(one.input.mode), ", metric ",
           schema::to_string(metric), ", truth ", value, ", bounds ", bounds.lower, " to ", bounds.upper);
      REQUIRE(holds);
      REQUIRE(bounds.lower <= bounds.upper);
    }
    if (one.input.mode != CaptureMode::topk) continue;
    const Interval tv = of(row, Metric::tv), flip = of(row, Metric::top1_flip);
    tv_width += tv.upper - tv.lower;
    tv_lower += tv.lower;
    tv_truth += truth[static_cast<std::size_t>(Metric::tv)];
    exact_flips += flip.lower == flip.upper ? 1 : 0;
    ++flips;
  }
  // Bounds that say nothing would hold too: over these lists tv is known to less than a third on average.
  CHECK(tv_width / flips < 0.34);
  CHECK(tv_lower > 0.5 * tv_truth);
  CHECK(exact_flips > flips / 2);
}

TEST_CASE("with every token listed the bounds close on the truth") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    Case one;
    one.pair = random_pair(random, 20);
    one.input.mode = i % 2 == 0 ? CaptureMode::topk : CaptureMode::matched;
    one.input.vocabulary = one.input.columns = 20;
    one.train = top_list(one.pair.p, 20, Rounding::none, -1);
    one.inf = top_list(one.pair.q, 20, Rounding::none, -1);
    const PartialRow row = measure_case(one);
    const std::vector<double> truth = truth_of(one.pair, 10);
    for (const Metric metric : {Metric::tv, Metric::js, Metric::hellinger2, Metric::kl_inf_train,
                                Metric::kl_train_inf, Metric::entropy_train}) {
      CAPTURE(schema::to_string(metric));
      const Interval bounds = of(row, metric);
      const double value = truth[static_cast<std::size_t>(metric)];
      // float32 keeps log-probabilities of up to 30 nats to 2e-6.
      CHECK(bounds.upper - bounds.lower <= 2e-5 * (1 + value) + 1e-5);
      CHECK(bounds.lower <= value + 1e-12);
    }
  }
}

TEST_CASE("matched support gives tv to the lesser of the two tails, as the theorem says") {
  // p = (0.5, 0.3, 0.2), q = (0.4, 0.35, 0.25), the last token unknown.
  const std::vector<ListedToken> train{{0, std::log(0.5F)}, {1, std::log(0.3F)}};
  const std::vector<ListedToken> inf{{0, std::log(0.4F)}, {1, std::log(0.35F)}};
  PartialInput input;
  input.mode = CaptureMode::matched;
  input.vocabulary = 3;
  input.train = {train, {}, {}};
  input.inf = {inf, {}, {}};
  const PartialRow row = measure_partial_row(input);
  CHECK(of(row, Metric::tv).lower == doctest::Approx(0.1).epsilon(1e-4));  // ½(0.1 + 0.05 + 0.05)
  CHECK(of(row, Metric::tv).upper == doctest::Approx(0.3).epsilon(1e-4));  // 1 − (0.4 + 0.3)
  CHECK(std::isinf(of(row, Metric::kl_inf_train).upper));
  const double kl = 0.4 * std::log(0.8) + 0.35 * std::log(0.35 / 0.3) + 0.25 * std::log(1.25);
  CHECK(of(row, Metric::kl_inf_train).lower == doctest::Approx(kl).epsilon(1e-3));
}

TEST_CASE("a token that an engine appended beyond its list is known and does not bound the unlisted ones") {
  // Three tokens of 0.3 are listed; the target token has 0.0001 and stands behind them. Were it listed, no
  // other token could be likelier than it, and inf's 0.09 on token 4 would prove a tv of almost 0.09.
  const float common = std::log(0.3F);
  const std::vector<ListedToken> train{{0, common}, {1, common}, {2, common}, {9, std::log(1e-4F)}};
  const std::vector<ListedToken> inf{{0, common}, {1, common}, {2, common}, {4, std::log(0.09F)}};
  PartialInput input;
  input.mode = CaptureMode::topk;
  input.columns = 4;
  input.train = {train, {}, {}};
  input.inf = {inf, {}, {}};
  input.token = 9;
  CHECK(of(measure_partial_row(input), Metric::tv).lower < 1e-5);
  input.token = 0;
  CHECK(of(measure_partial_row(input), Metric::tv).lower > 0.08);
}

TEST_CASE("nothing known gives the trivial bounds and not zero") {
  for (const CaptureMode mode : {CaptureMode::topk, CaptureMode::matched, CaptureMode::realised}) {
    PartialInput input;
    input.mode = mode;
    input.vocabulary = 50;
    const PartialRow row = measure_partial_row(input);
    CHECK(row.unknown);
    CHECK(of(row, Metric::tv).lower == 0);
    CHECK(of(row, Metric::tv).upper == 1);
    CHECK(std::isinf(of(row, Metric::kl_inf_train).upper));
    CHECK_FALSE(row.logprob_inf);
    if (mode == CaptureMode::realised) continue;
    CHECK(of(row, Metric::entropy_train).upper == doctest::Approx(std::log(50.0)));
    CHECK(of(row, Metric::top1_flip).upper == 1);
  }
}

TEST_CASE("the estimate from lists and the target token has the mean KL(q‖p), appended tokens or not") {
  std::mt19937_64 random(77);
  for (int i = 0; i < 400; ++i) {
    const TruePair pair = random_pair(random, 2 + random() % 15);
    const std::size_t k = 1 + random() % pair.p.size();
    const bool appends = i % 2 == 0;
    double mean = 0;
    for (std::size_t token = 0; token < pair.p.size(); ++token) {
      Case one;
      one.pair = pair;
      one.input.mode = CaptureMode::topk;
      one.input.token = static_cast<std::int64_t>(token);
      one.input.columns = static_cast<std::uint32_t>(k + (appends ? 1 : 0));
      const std::int64_t appended = appends ? *one.input.token : -1;
      one.train = top_list(pair.p, k, Rounding::none, appended);
      one.inf = top_list(pair.q, k, Rounding::none, appended);
      one.input.train.target_logprob = stored_logprob(pair.p[token], Rounding::none);
      one.input.inf.target_logprob = stored_logprob(pair.q[token], Rounding::none);
      const PartialRow row = measure_case(one);
      REQUIRE(row.kl_estimate);
      CHECK(*row.kl_estimate >= 0);
      mean += pair.q[token] * *row.kl_estimate;
    }
    const double kl = truth_of(pair, 1)[static_cast<std::size_t>(Metric::kl_inf_train)];
    CAPTURE(i);
    // float32 of log-probabilities up to 40 nats: 2.4e-6 each, doubled where log p and log q differ much.
    CHECK(mean == doctest::Approx(kl).epsilon(1e-5).scale(1));
  }
}
