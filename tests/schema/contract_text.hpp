#pragma once

#include <string>
#include <string_view>

namespace driftgate::schema {

/// A small right contract that the tests break in one place at a time.
inline constexpr std::string_view kContractText = R"(apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: small}
kernels:
  train: {ref: f32}
  inf: {ref: int8}
assumptions:
  reward: {min: 0, max: 1}
  max_tokens: 512
slices:
  dimensions: [language, domain]
  critical: [{language: de}]
numerical:
  - {id: finite, metric: nonfinite, aggregate: sum, max: 0}
  - {id: span, metric: logit_span, aggregate: p99, max: 0.75}
  - {id: reward, bound: reward, max: 0.05}
statistical:
  - {id: tv, metric: tv, aggregate: mean, max: 0.02, slices: [critical], min_sequences: 175}
  - {id: task, outcome: correct, non_inferiority_margin: 0.03}
runtime:
  - {id: errors, metric: error_rate, max_ratio: 1.5, max: 0.02}
  - {id: ttft, metric: ttft_ms, aggregate: p95, max_ratio: 1.1}
observability:
  - {id: fresh, signal: telemetry, max_staleness: 30s}
stages:
  canary:
    steps: [{share: 0.1}, {share: 0.5, approval: true}, {share: 1.0}]
    soak: 6m
    max_duration: 24h
escalation:
  rules:
    - {match: "runtime.errors", stage: canary, action: rollback}
  defaults: {hard: rollback, soft: freeze}
guard: {mean_time_between_false_alarms: 365d}
)";

/// `kContractText` with the first `from` replaced by `to`; the empty text when `from` does not occur.
inline std::string contract_with(std::string_view from, std::string_view to) {
  std::string text(kContractText);
  const auto at = text.find(from);
  return at == std::string::npos ? std::string() : text.replace(at, from.size(), to);
}

}  // namespace driftgate::schema
