#include "tests/simulation/worlds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stages/statistics/distributions.hpp"

namespace driftgate::simulation {
namespace {

using stages::ClusterSum;
using stages::Random;

double normal(Random& random) {
  return stages::normal_quantile(std::clamp(random.uniform(), 1e-16, 1 - 1e-16));
}

double draw_log_normal(double mean, double variation, Random& random) {
  const double variance = std::log1p(variation * variation);
  return std::min(1.0, mean * std::exp(std::sqrt(variance) * normal(random) - variance / 2));
}

ClusterSum of_some_length(double mean, Random& random) {
  const auto n = static_cast<double>(5 + random.below(56));
  return {n, n * mean};
}

}  // namespace

World log_normal(double mean, double variation) {
  return {fmt::format("log-normal, CV {:g}", variation),
          [=](Random& random) { return of_some_length(draw_log_normal(mean, variation, random), random); }};
}

World few_bad(double mean, double bad) {
  const double wrong = std::min(1.0, 0.75 * mean / bad);
  const double rest = (mean - bad * wrong) / (1 - bad);
  return {fmt::format("{:g}% bad sequences", 100 * bad), [=](Random& random) {
            const bool is_bad = random.uniform() < bad;
            return of_some_length(is_bad ? wrong : draw_log_normal(rest, 0.5, random), random);
          }};
}

World all_or_nothing(double bad) {
  return {fmt::format("{:g}% wholly wrong, no other drift", 100 * bad),
          [=](Random& random) { return of_some_length(random.uniform() < bad ? 1 : 0, random); }};
}

World long_and_bad() {
  return {"0.5% are 25 times as long and hold the drift", [](Random& random) {
            const bool is_long = random.uniform() < 0.005;
            return is_long ? ClusterSum{kLongest, kLongest} : ClusterSum{kLongest / 25, 0};
          }};
}

std::vector<ClusterSum> sample(const World& world, std::size_t n, Random& random) {
  std::vector<ClusterSum> sums(n);
  for (ClusterSum& sum : sums) sum = world.draw(random);
  return sums;
}

Truth truth_of(const World& world, double clip) {
  Random random(99);
  constexpr int kDraws = 4'000'000;
  Truth truth;
  double tokens = 0, total = 0;
  for (int i = 0; i < kDraws; ++i) {
    const ClusterSum sum = world.draw(random);
    truth.mean += std::min(clip, sum.sum / sum.n);
    truth.above += sum.sum / sum.n > clip ? 1 : 0;
    tokens += sum.n;
    total += sum.sum;
  }
  truth.mean /= kDraws;
  truth.above /= kDraws;
  truth.by_token = total / tokens;
  return truth;
}

}  // namespace driftgate::simulation
