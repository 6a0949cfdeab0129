#include "stages/dependence/latency_history.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "stages/dependence/failure_history.hpp"

namespace driftgate::stages {
namespace {

constexpr std::array kFollowed{schema::Metric::ttft_ms, schema::Metric::inter_token_ms,
                               schema::Metric::total_ms};
constexpr std::int64_t kUnitsOfDay = FailureHistory::kDayUs / Wander::kUnitUs;

}  // namespace

void LatencyHistory::One::observe(double value, std::int64_t routed_us, double share) {
  if (!std::isfinite(value)) return;
  values.add(value);
  if (values.count() < kLeastValues) return;
  const bool begins = routed_us / Wander::kUnitUs > unit;
  if (begins) unit = routed_us / Wander::kUnitUs;
  for (std::size_t i = 0; i < kQuantiles.size(); ++i) {
    if (begins) places[i] = values.place_of_quantile(kQuantiles[i]);
    const auto bin = QuantileSequence::bin_of(value);
    // Bins are wide where latencies are alike: of the quantile's own bin the part that is above it counts.
    const double is_above = bin == places[i].bin ? places[i].above : bin > places[i].bin ? 1 : 0;
    above[i].observe(routed_us, is_above, share);
  }
  if (value > 0) mean.observe(routed_us, std::log(value), share);
}

void LatencyHistory::observe(const Latencies& latencies, std::int64_t routed_us, double share) {
  observed_units_ += clock_.advance(routed_us, Wander::kUnitUs);
  if (observed_units_ >= kUnitsOfDay) {
    observed_units_ = 0;
    for (One& one : metrics_) {
      for (Wander& wander : one.above) wander.begin_day();
      one.mean.begin_day();
    }
  }
  const std::array values{latencies.ttft_ms, latencies.inter_token_ms, latencies.total_ms};
  for (std::size_t i = 0; i < kMetrics; ++i) metrics_[i].observe(values[i], routed_us, share);
}

Wander::Excess LatencyHistory::excess(schema::Metric metric, std::optional<double> quantile) const {
  const auto place = std::ranges::find(kFollowed, metric);
  if (place == kFollowed.end()) return {};
  const One& one = metrics_[static_cast<std::size_t>(place - kFollowed.begin())];
  if (!quantile) return one.mean.excess(kAllowance);
  std::size_t nearest = 0;
  while (nearest + 1 < kQuantiles.size() && kQuantiles[nearest + 1] <= *quantile) ++nearest;
  return one.above[nearest].excess(kAllowance);
}

nlohmann::json LatencyHistory::to_json() const {
  nlohmann::json metrics = nlohmann::json::array();
  for (const One& one : metrics_) {
    nlohmann::json above = nlohmann::json::array(), places = nlohmann::json::array();
    for (const auto& place : one.places) places.push_back({place.bin, place.above});
    for (const Wander& wander : one.above) above.push_back(wander.to_json());
    metrics.push_back({{"values", one.values.to_json()},
                       {"places", std::move(places)},
                       {"unit", one.unit},
                       {"above", std::move(above)},
                       {"mean", one.mean.to_json()}});
  }
  return {{"metrics", std::move(metrics)}, {"units", {clock_.index, observed_units_}}};
}

LatencyHistory LatencyHistory::from_json(const nlohmann::json& json) {
  LatencyHistory history;
  for (std::size_t i = 0; i < kMetrics; ++i) {
    const nlohmann::json& metric = json.at("metrics").at(i);
    One& one = history.metrics_[i];
    one.values = QuantileSequence::from_json(metric.at("values"));
    metric.at("unit").get_to(one.unit);
    for (std::size_t q = 0; q < kQuantiles.size(); ++q) {
      one.above[q] = Wander::from_json(metric.at("above").at(q));
      metric.at("places").at(q).at(0).get_to(one.places[q].bin);
      metric.at("places").at(q).at(1).get_to(one.places[q].above);
    }
    one.mean = Wander::from_json(metric.at("mean"));
  }
  json.at("units").at(0).get_to(history.clock_.index);
  json.at("units").at(1).get_to(history.observed_units_);
  return history;
}

}  // namespace driftgate::stages
