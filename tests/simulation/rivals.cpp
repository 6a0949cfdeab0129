#include "tests/simulation/rivals.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/label_process.hpp"

namespace driftgate::simulation {
namespace {

constexpr std::uint64_t kWindow = 1'000;
constexpr std::size_t kLeastWindows = 10;
constexpr double kLeastRequests = 100;

struct Arm {
  double n = 0, failed = 0;
  [[nodiscard]] double rate() const { return n > 0 ? failed / n : 0; }
};

struct Arms {
  Arm incumbent, candidate;
  void add(const Request& request) {
    Arm& arm = request.candidate ? candidate : incumbent;
    arm.n += 1;
    arm.failed += request.failed ? 1 : 0;
  }
};

/// Calls `look` after each window with all counts so far and those of the window; it says alarm.
template <typename Look>
Ended each_window(const std::vector<Request>& requests, Look look) {
  Ended ended;
  Arms all, window;
  for (const Request& request : requests) {
    ended.exposed += request.candidate ? 1 : 0;
    all.add(request);
    window.add(request);
    if ((request.number + 1) % kWindow != 0) continue;
    if (look(all, window)) {
      ended.alarm = true;
      return ended;
    }
    window = {};
  }
  return ended;
}

/// P-value of "the second sample is not stochastically larger", by the normal limit with ties.
double mann_whitney(const std::vector<double>& first, const std::vector<double>& second) {
  struct Value {
    double x;
    bool second;
  };
  std::vector<Value> all;
  for (const double x : first) all.push_back({x, false});
  for (const double x : second) all.push_back({x, true});
  std::ranges::sort(all, {}, &Value::x);
  double ranks = 0, ties = 0;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t j = i;
    while (j < all.size() && all[j].x == all[i].x) ++j;
    const auto t = static_cast<double>(j - i);
    const double rank = (static_cast<double>(i + j) + 1) / 2;
    for (std::size_t k = i; k < j; ++k) ranks += all[k].second ? rank : 0;
    ties += t * t * t - t;
    i = j;
  }
  const auto n = static_cast<double>(first.size());
  const auto m = static_cast<double>(second.size());
  const double u = ranks - m * (m + 1) / 2;
  const double total = n + m;
  const double variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)));
  if (variance <= 0) return 1;
  return 1 - stages::normal_cdf((u - n * m / 2 - 0.5) / std::sqrt(variance));
}

}  // namespace

Ended by_labels(const std::vector<Request>& requests, double max_ratio, double alpha, bool routing_order) {
  std::vector<const Request*> order;
  for (const Request& request : requests) order.push_back(&request);
  if (!routing_order) std::ranges::stable_sort(order, {}, &Request::seen_at);
  stages::LabelProcess process(max_ratio);
  std::unordered_set<std::uint64_t> failed;
  Ended ended;
  for (const Request* request : order) {
    ended.exposed += request->candidate ? 1 : 0;
    if (!request->failed || !failed.insert(request->key).second) continue;
    process.update(request->candidate, request->share);
    if (process.e_value() < 1 / alpha) continue;
    ended.alarm = true;
    return ended;
  }
  return ended;
}

Ended by_threshold(const std::vector<Request>& requests) {
  return each_window(requests, [](const Arms& all, const Arms&) {
    const bool enough = all.candidate.n >= kLeastRequests && all.incumbent.n >= kLeastRequests;
    return enough && all.candidate.rate() > 1.5 * all.incumbent.rate() && all.candidate.failed > 0;
  });
}

Ended by_repeated_z(const std::vector<Request>& requests, double alpha) {
  return each_window(requests, [alpha](const Arms& all, const Arms&) {
    const double n = all.candidate.n + all.incumbent.n;
    const double pooled = (all.candidate.failed + all.incumbent.failed) / n;
    const double error = std::sqrt(pooled * (1 - pooled) *
                                   (1 / std::max(1.0, all.candidate.n) + 1 / std::max(1.0, all.incumbent.n)));
    if (error <= 0 || all.candidate.n < 1) return false;
    return 1 - stages::normal_cdf((all.candidate.rate() - all.incumbent.rate()) / error) <= alpha;
  });
}

Ended by_mann_whitney(const std::vector<Request>& requests, double alpha) {
  std::vector<double> incumbent, candidate;
  return each_window(requests, [&](const Arms&, const Arms& window) {
    if (window.candidate.n > 0) candidate.push_back(window.candidate.rate());
    if (window.incumbent.n > 0) incumbent.push_back(window.incumbent.rate());
    if (candidate.size() < kLeastWindows) return false;
    return mann_whitney(incumbent, candidate) <= alpha;
  });
}

}  // namespace driftgate::simulation
