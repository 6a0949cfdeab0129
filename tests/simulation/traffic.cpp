#include "tests/simulation/traffic.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace driftgate::simulation {
namespace {

constexpr std::uint64_t kKeys = 40'000;
constexpr std::uint64_t kLateBy = 2'000;

double uniform_of(std::uint64_t key, std::uint64_t salt) {
  return static_cast<double>(stages::mix64(key ^ stages::mix64(salt)) >> 11U) * 0x1.0p-53;
}

double rate_of(const TrafficPlan& plan, const Request& request, std::uint64_t seed) {
  double rate = plan.base_rate * (request.candidate ? plan.ratio : 1);
  if (plan.clustered) {
    // 5% of the keys at tenfold and the rest at 10/19 of the rate: the mean stays.
    rate *= uniform_of(request.key, seed + 2) < 0.05 ? 10.0 : 10.0 / 19.0;
  }
  if (plan.daily) {
    const double day = 3.0 * static_cast<double>(request.number) / static_cast<double>(plan.requests);
    rate *= 1 + 0.5 * std::sin(2 * std::numbers::pi * day);
  }
  return std::min(rate, 1.0);
}

}  // namespace

std::vector<Request> traffic(const TrafficPlan& plan, std::uint64_t seed) {
  stages::Random random(seed);
  std::vector<Request> requests(plan.requests);
  for (std::uint64_t i = 0; i < plan.requests; ++i) {
    Request& request = requests[i];
    request.number = i;
    request.key = plan.heavy_keys
                      ? static_cast<std::uint64_t>(static_cast<double>(kKeys) * std::pow(random.uniform(), 4))
                      : i;
    const std::uint64_t step = i * plan.shares.size() / plan.requests;
    request.share = plan.shares[step];
    request.candidate = uniform_of(request.key, seed + 1) < request.share;
    request.failed = random.uniform() < rate_of(plan, request, seed);
    request.seen_at = i + (plan.late && !request.candidate && request.failed ? kLateBy : 0);
  }
  return requests;
}

}  // namespace driftgate::simulation
