#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "gpu/partial/partial_row.hpp"

/// What the rounding of an engine's softmax does to bounds (docs/design/measurement.md, "Rounding of the
/// source").
using namespace driftgate;
using namespace driftgate::gpu;

namespace {

using Logits = std::vector<float>;
using Exact = std::vector<long double>;  ///< log-probabilities

/// The ways in which engines come from logits to log-probabilities, in the type T throughout.
enum class Path { log_softmax, log_of_softmax };

template <typename T>
std::vector<ListedToken> listed(const Logits& logits, Path path) {
  T top = logits.front();
  for (const float z : logits) top = std::max(top, static_cast<T>(z));
  T sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<T>(z) - top);
  std::vector<ListedToken> out;
  for (std::size_t v = 0; v < logits.size(); ++v) {
    const T shifted = static_cast<T>(logits[v]) - top;
    const T l = path == Path::log_softmax ? shifted - std::log(sum) : std::log(std::exp(shifted) / sum);
    out.push_back({static_cast<std::int64_t>(v), static_cast<float>(std::min(l, T{0}))});
  }
  return out;
}

Exact exact_log_softmax(const Logits& logits) {
  long double sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<long double>(z));
  Exact out;
  for (const float z : logits) out.push_back(z - std::log(sum));
  return out;
}

long double phi(long double x) {
  if (std::abs(x) > 0.01L) return std::expm1(x) - x;
  return x * x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6 * (1 + x / 7)))));
}

/// A figure of two distributions, and how far the errors of the lists move it where none cancels another.
struct Figure {
  Metric metric{};
  double truth = 0, made = 0;
};

std::vector<Figure> figures_of(const Exact& p, const Exact& q, const std::vector<ListedToken>& train,
                               const std::vector<ListedToken>& inf) {
  long double tv = 0, train_inf = 0, inf_train = 0, hellinger2 = 0, chi2 = 0, entropy_train = 0,
              entropy_inf = 0;
  long double tv_made = 0, train_inf_made = 0, inf_train_made = 0;
  for (std::size_t v = 0; v < p.size(); ++v) {
    const long double a = std::exp(p[v]), b = std::exp(q[v]), d = p[v] - q[v];
    tv += std::abs(a - b) / 2;
    train_inf += a * phi(-d);
    inf_train += b * phi(d);
    hellinger2 += b * std::pow(std::expm1(d / 2), 2.0L) / 2;
    chi2 += b * std::pow(std::expm1(d), 2.0L);
    entropy_train -= a * p[v];
    entropy_inf -= b * q[v];
    const long double e = std::abs(train[v].logprob - p[v]), f = std::abs(inf[v].logprob - q[v]);
    tv_made += (a * e + b * f) / 2;
    train_inf_made += std::abs(a - b) * f + a * std::abs(d) * e;
    inf_train_made += std::abs(a - b) * e + b * std::abs(d) * f;
  }
  const auto figure = [](Metric metric, long double truth, long double made) {
    return Figure{metric, static_cast<double>(truth), static_cast<double>(made)};
  };
  return {figure(Metric::tv, tv, tv_made),
          figure(Metric::kl_train_inf, train_inf, train_inf_made),
          figure(Metric::kl_inf_train, inf_train, inf_train_made),
          figure(Metric::hellinger2, hellinger2, 0),
          figure(Metric::chi2, chi2, 0),
          figure(Metric::entropy_train, entropy_train, 0),
          figure(Metric::entropy_inf, entropy_inf, 0)};
}

struct Rows {
  Logits train, inf;
};

Rows random_rows(std::mt19937_64& random, double drift) {
  std::normal_distribution<double> normal;
  const std::size_t vocabulary = 2 + random() % (random() % 8 == 0 ? 3'000 : 200);
  const double size = std::array{0.5, 2.0, 4.0}[random() % 3];
  const double offset = 20 * normal(random);
  Rows out;
  for (std::size_t v = 0; v < vocabulary; ++v) {
    const double z = offset + size * normal(random);
    out.train.push_back(static_cast<float>(z));
    out.inf.push_back(static_cast<float>(z + drift * normal(random)));
  }
  return out;
}

PartialRow measure_whole(const std::vector<ListedToken>& train, const std::vector<ListedToken>& inf,
                         const LogprobError& error) {
  PartialInput input;
  input.mode = CaptureMode::matched;
  input.vocabulary = input.columns = static_cast<std::uint32_t>(train.size());
  input.train = {train, {}, error};
  input.inf = {inf, {}, error};
  return measure_partial_row(input);
}

Interval of(const PartialRow& row, Metric metric) {
  return row.bounds[static_cast<std::size_t>(metric)];
}

}  // namespace

TEST_CASE("lists of a whole vocabulary from float32 softmaxes: the true figures are within their bounds") {
  constexpr std::uint64_t kSeed = 20261128;
  constexpr int kRows = 8'000;
  std::mt19937_64 random(kSeed);
  std::array<double, kRowMetricCount> width{}, made{};
  for (int i = 0; i < kRows; ++i) {
    const double drift = std::array{0.0, 1e-6, 1e-4, 1e-2, 0.1, 1.0}[random() % 6];
    const Rows rows = random_rows(random, drift);
    const Path path = random() % 2 == 0 ? Path::log_softmax : Path::log_of_softmax;
    const auto train = listed<float>(rows.train, path), inf = listed<float>(rows.inf, path);
    const PartialRow row = measure_whole(train, inf, {});
    for (const Figure& figure :
         figures_of(exact_log_softmax(rows.train), exact_log_softmax(rows.inf), train, inf)) {
      const Interval bounds = of(row, figure.metric);
      const double slack = 1e-17 + 1e-14 * figure.truth;  // of the truth
      INFO("seed ", kSeed, ", row ", i, ", drift ", drift, ", ", rows.train.size(), " tokens, ",
           schema::to_string(figure.metric), ", truth ", figure.truth, ", bounds ", bounds.lower, " to ",
           bounds.upper);
      REQUIRE(bounds.lower <= figure.truth + slack);
      REQUIRE(figure.truth - slack <= bounds.upper);
      if (drift < 1e-2) continue;  // the errors of a smaller drift are those of its square
      width[static_cast<std::size_t>(figure.metric)] += bounds.upper - bounds.lower;
      made[static_cast<std::size_t>(figure.metric)] += figure.made;
    }
  }
  for (const Metric metric : {Metric::tv, Metric::kl_train_inf, Metric::kl_inf_train}) {
    const auto at = static_cast<std::size_t>(metric);
    CAPTURE(schema::to_string(metric));
    CAPTURE(width[at] / made[at]);
    CHECK(width[at] <= 10 * made[at]);
  }
}

TEST_CASE("equal lists have lower bounds of 0, and upper bounds of the rounding that they may hide") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    const auto list = listed<float>(random_rows(random, 0).train, Path::log_softmax);
    const PartialRow row = measure_whole(list, list, {});
    for (const Metric metric : {Metric::tv, Metric::kl_train_inf, Metric::kl_inf_train, Metric::js,
                                Metric::hellinger2, Metric::chi2}) {
      CAPTURE(schema::to_string(metric));
      CHECK(of(row, metric).lower == 0);
      CHECK(of(row, metric).upper >= 0);
      CHECK(of(row, metric).upper < 1e-4);
    }
    CHECK(of(row, Metric::kl_inf_train).upper < 1e-9);
  }
}

TEST_CASE("a softmax in float64 is not taken to be one in float32, and is within its bounds too") {
  std::mt19937_64 random(4);
  double wide = 0, narrow = 0;
  for (int i = 0; i < 1'000; ++i) {
    const Rows rows = random_rows(random, 0.05);
    const auto train = listed<double>(rows.train, Path::log_softmax);
    const auto inf = listed<double>(rows.inf, Path::log_softmax);
    const LogprobError exact{0x1p-24, 0, 0x1p-53};
    const PartialRow row = measure_whole(train, inf, exact), other = measure_whole(train, inf, {});
    for (const Figure& figure :
         figures_of(exact_log_softmax(rows.train), exact_log_softmax(rows.inf), train, inf)) {
      const Interval bounds = of(row, figure.metric);
      CAPTURE(schema::to_string(figure.metric));
      REQUIRE(bounds.lower <= figure.truth * (1 + 1e-14) + 1e-17);
      REQUIRE(figure.truth * (1 - 1e-14) - 1e-17 <= bounds.upper);
    }
    narrow += of(row, Metric::tv).upper - of(row, Metric::tv).lower;
    wide += of(other, Metric::tv).upper - of(other, Metric::tv).lower;
  }
  CHECK(narrow < wide / 2);
}

TEST_CASE("matched lists of a part of the vocabulary allow for the rounding of the normaliser") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 2'000; ++i) {
    const Rows rows = random_rows(random, std::array{0.0, 1e-4, 0.1}[random() % 3]);
    auto train = listed<float>(rows.train, Path::log_softmax),
         inf = listed<float>(rows.inf, Path::log_softmax);
    const auto figures = figures_of(exact_log_softmax(rows.train), exact_log_softmax(rows.inf), train, inf);
    const std::size_t kept = 1 + random() % train.size();
    train.resize(kept);
    inf.resize(kept);
    PartialInput input;
    input.mode = CaptureMode::matched;
    input.vocabulary = static_cast<std::uint32_t>(rows.train.size());
    input.columns = static_cast<std::uint32_t>(kept);
    input.train = {train, {}, {}};
    input.inf = {inf, {}, {}};
    const PartialRow row = measure_partial_row(input);
    for (const Figure& figure : figures) {
      const Interval bounds = of(row, figure.metric);
      CAPTURE(schema::to_string(figure.metric));
      REQUIRE(bounds.lower <= figure.truth * (1 + 1e-14) + 1e-17);
      REQUIRE(figure.truth * (1 - 1e-14) - 1e-17 <= bounds.upper);
    }
  }
}
