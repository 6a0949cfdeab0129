#include "schema/metrics.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace driftgate::schema {
namespace {

TEST_CASE("every name of the registry leads back to its metric and is unique") {
  std::set<std::string_view> names;
  for (const MetricInfo& entry : metric_registry()) {
    CAPTURE(std::string(entry.name));
    CHECK(names.insert(entry.name).second);
    CHECK(metric_from_name(entry.name) == entry.metric);
    CHECK(&info(entry.metric) == &entry);
    CHECK_FALSE(entry.definition.empty());
    CHECK(entry.low < entry.high);
    CHECK(entry.stages != 0);
  }
  CHECK(names.size() == kMetricCount);
  CHECK_FALSE(metric_from_name("kl").has_value());
}

TEST_CASE("the per-row metrics come first and need captures, not traffic") {
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    const MetricInfo& entry = metric_registry()[i];
    CHECK((entry.group == MetricGroup::row) == (i < kRowMetricCount));
    if (i < kRowMetricCount) CHECK((entry.stages & stage_bit(Stage::canary)) == 0);
  }
}

TEST_CASE("names of aggregates, stages and bounds lead back to their values") {
  for (std::size_t i = 0; i < kAggregateCount; ++i) {
    CHECK(aggregate_from_name(to_string(static_cast<Aggregate>(i))) == static_cast<Aggregate>(i));
  }
  for (std::size_t i = 0; i < kStageCount; ++i) {
    CHECK(stage_from_name(to_string(static_cast<Stage>(i))) == static_cast<Stage>(i));
  }
  for (std::size_t i = 0; i < kBoundCount; ++i) {
    CHECK(bound_from_name(to_string(static_cast<Bound>(i))) == static_cast<Bound>(i));
  }
  CHECK(quantile_of(Aggregate::p99_9) == 0.999);
  CHECK_FALSE(quantile_of(Aggregate::mean).has_value());
}

}  // namespace
}  // namespace driftgate::schema
