#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::simulation {

/// A contract with one clause on the failure rate, and a guard without golden probes.
inline schema::Contract guarded(const schema::Limits& limits, std::int64_t mean_time_us) {
  schema::Contract contract;
  contract.name = "guard";
  contract.digest = "sha256:guard";
  schema::Clause errors;
  errors.family = schema::Family::runtime;
  errors.id = "errors";
  errors.subject = schema::MetricSubject{schema::Metric::error_rate, {}};
  errors.limits = limits;
  errors.stages = schema::stage_bit(schema::Stage::canary);
  contract.clauses = {errors};
  contract.guard.emplace();
  contract.guard->mean_time_between_false_alarms_ms = mean_time_us / 1'000;
  contract.guard->probes.prompts = 0;
  return contract;
}

/// The upper one of an even number of values. Precondition: there is one.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace driftgate::simulation
