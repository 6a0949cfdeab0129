#include "stages/dependence/latency_history.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"

using namespace driftgate::stages;
using driftgate::schema::Metric;

namespace {

/// Answers at 20 a second whose first token is log-normal around 200 ms, and `slower` times as late in the
/// first three minutes of each half hour.
LatencyHistory seen(int seconds, double slower, std::uint64_t seed, bool through_json = false) {
  Random random(mix64(seed));
  LatencyHistory history;
  for (int i = 0; i < 20 * seconds; ++i) {
    const int second = i / 20;
    Latencies latencies;
    latencies.ttft_ms = 200 * std::exp(0.4 * normal_quantile(std::max(random.uniform(), 1e-12)));
    latencies.total_ms = latencies.ttft_ms + 1'000;
    if (second % 1'800 < 180) latencies.ttft_ms *= slower;
    history.observe(latencies, 1'000'000'000'000 + 50'000LL * i, 1);
    if (through_json && i % 5'000 == 0)
      history = LatencyHistory::from_json(nlohmann::json::parse(history.to_json().dump()));
  }
  return history;
}

}  // namespace

TEST_CASE("latencies that are independent of each other do not wander") {
  int shown = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const LatencyHistory history = seen(1'800, 1, seed);
    shown += history.excess(Metric::ttft_ms, 0.95).excess > 0.3 ? 1 : 0;
    shown += history.excess(Metric::ttft_ms, std::nullopt).excess > 0.3 ? 1 : 0;
  }
  CHECK(shown <= 6);
}

TEST_CASE("an engine that slows down for minutes shows, in the metric that slows down") {
  const LatencyHistory history = seen(14'400, 3, 1);
  // 20 answers a second in windows of about three minutes, of which all are late.
  const auto late = history.excess(Metric::ttft_ms, 0.95);
  CHECK(late.excess > 300);
  CHECK(late.window_s >= 128);
  CHECK(history.excess(Metric::ttft_ms, 0.5).excess > 50);
  CHECK(history.excess(Metric::ttft_ms, std::nullopt).excess > 300);
  CHECK(history.excess(Metric::total_ms, 0.95).excess < 2);
  CHECK(history.excess(Metric::inter_token_ms, 0.95).excess == 0);
  // A quantile between two of those that are followed takes the smaller one.
  CHECK(history.excess(Metric::ttft_ms, 0.97).excess == late.excess);
}

TEST_CASE("a history of latencies goes on from what was written of it") {
  CHECK(seen(600, 3, 2, true).to_json() == seen(600, 3, 2).to_json());
}
