#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "stages/canary.hpp"
#include "stages/canary_streams.hpp"
#include "stages/statistics/split_guard.hpp"

namespace driftgate::stages {

/// Router processes whose newest window number is remembered; older ones are forgotten first.
inline constexpr std::size_t kMaxRouters = 64;

/// What is known of a sticky key: a bit for each thing that counts once.
enum KeyBit : std::uint8_t { kKeySeen = 1, kKeyCandidate = 2, kKeyFailed = 4, kKeyLatency = 8 };

struct CanaryState::Impl {
  // Of the contract and the settings; not serialised except for what must agree.
  std::string contract_digest;
  schema::CanaryPlan plan;
  schema::Escalation escalation;
  std::vector<schema::Clause> signals;
  std::vector<std::uint32_t> prompt_bounds;
  CanarySettings settings;
  CanaryLevels levels;

  // The stream state.
  std::uint32_t started = 0;  ///< steps begun at least once
  std::vector<RateStream> rates;
  std::vector<LatencyStream> latencies;
  SplitGuard split;
  std::unordered_map<std::uint64_t, std::uint8_t> keys;
  std::vector<std::pair<std::string, std::uint64_t>> windows;  ///< newest last
  std::uint64_t exposed_requests = 0, exposed_keys = 0, keys_in_step = 0, uncounted_keys = 0;
  std::uint64_t failed_keys_candidate = 0, failed_requests_candidate = 0, failed_requests_incumbent = 0;
  std::int64_t first_failure_us = 0;  ///< 0 = none

  // canary.cpp
  [[nodiscard]] std::uint8_t* key_bits(const CanaryObservation& observation, std::uint8_t& keyless);
  void observe(const CanaryObservation& observation);
  void observe_latency(const CanaryObservation& observation, const schema::SliceWhere& slice);
  [[nodiscard]] std::uint32_t share_of(std::uint32_t step) const;

  // canary_decide.cpp
  [[nodiscard]] CanaryDecision decide(const CanaryContext& context);
  void collect_verdicts(const CanaryContext& context, CanaryDecision& decision) const;
  void judge_together(CanaryDecision& decision) const;
  void follow_trips(const CanaryContext& context, CanaryDecision& decision);
  void trip(const CanaryContext& context, const CanaryDecision& decision);
  void choose_action(const CanaryContext& context, bool tripped, CanaryDecision& decision) const;
  void choose_progress(const CanaryContext& context, CanaryDecision& decision) const;
  [[nodiscard]] bool out_of_time(const CanaryContext& context, CanaryDecision& decision) const;
};

}  // namespace driftgate::stages
