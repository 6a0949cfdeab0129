#pragma once

#include <doctest/doctest.h>

#include <string>

#include "schema/contract/contract.hpp"

namespace driftgate::stages {

/// A contract with these clauses and this canary, for tests of what is planned with it.
inline schema::Contract planning_contract(const std::string& clauses, const std::string& canary) {
  const std::string text = R"(apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: planning}
kernels: {train: {ref: a}, inf: {ref: b}}
slices: {dimensions: [language], min_sequences: 10, critical: [{language: de}]}
)" + clauses + R"(
stages:
  shadow-runtime: {mirror_share: 0.2}
  canary: {)" + canary + R"(, max_duration: 1h}
confidence: {alpha: 0.05, alpha_harm: 0.01, alpha_advance: 0.05}
)";
  const schema::ContractReport report = schema::parse_contract(text, "planning.yaml");
  REQUIRE_MESSAGE(report.contract.has_value(), schema::format_faults(report.faults, "planning.yaml"));
  return *report.contract;
}

}  // namespace driftgate::stages
