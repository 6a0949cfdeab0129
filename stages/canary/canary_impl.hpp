#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stages/canary/canary.hpp"
#include "stages/canary/canary_scopes.hpp"
#include "stages/canary/canary_streams.hpp"
#include "stages/statistics/split_guard.hpp"

namespace driftgate::stages {

/// Router processes whose newest window number is remembered; older ones are forgotten first.
inline constexpr std::size_t kMaxRouters = 64;
/// Times that traffic is given back from the fallback kernel to try the candidate again; each time the dwell
/// doubles, and after the last it stays there.
inline constexpr std::uint32_t kMaxProbations = 3;

/// What is known of a sticky key: a bit for each thing that counts once.
enum KeyBit : std::uint8_t {
  kKeySeen = 1,
  kKeyCandidate = 2,
  kKeyFailed = 4,
  kKeyLatency = 8,
  kKeyCounted = 16
};

struct CanaryState::Impl {
  /// What goes to the fallback kernel, sorted.
  struct Routing {
    std::vector<schema::SliceWhere> slices;
    bool all = false;
    bool operator==(const Routing&) const = default;
  };
  /// A verdict of this decision and the stream that made it.
  struct Judged {
    schema::ClauseVerdict verdict;
    const WatchedClause* watched = nullptr;
    const RateStream* rate = nullptr;  ///< where failures are counted
    bool set_aside = false;            ///< another verdict's order answers it
    bool held = false;                 ///< an order on it stands already

    [[nodiscard]] bool is_fresh() const { return !set_aside && !held; }
  };

  // Of the contract and the settings; not serialised except for what must agree.
  std::string contract_digest;
  schema::CanaryPlan plan;
  schema::Escalation escalation;
  std::vector<std::uint32_t> prompt_bounds;
  CanarySettings settings;
  CanaryLevels levels;
  CanaryScopes scopes;
  std::uint32_t strata = 1;

  // The stream state.
  std::uint32_t started = 0;  ///< steps begun at least once
  std::vector<RateStream> rates;
  std::vector<LatencyStream> latencies;
  std::vector<SignalStream> signals;
  std::vector<schema::SliceWhere> found;  ///< slices found in traffic, in order
  bool found_full = false;                ///< a further one was not watched
  SplitGuard split;
  FailureHistory incumbent, candidate;  ///< of this canary, the incumbent's from before it on
  bool dependent = false;  ///< failures of an arm come together: single ones no longer count as evidence
  std::unordered_map<std::uint64_t, std::uint8_t> keys;
  std::vector<std::pair<std::string, std::uint64_t>> windows;  ///< newest last
  std::vector<std::string> noticed;                            ///< notices that were given and still stand
  std::uint64_t exposed_requests = 0, exposed_keys = 0, keys_in_step = 0, uncounted_keys = 0;
  std::uint64_t failed_keys_candidate = 0, failed_requests_candidate = 0, failed_requests_incumbent = 0;
  std::uint64_t windows_read = 0;
  std::int64_t first_failure_us = 0;  ///< 0 = none

  // canary.cpp
  void add_stream(const schema::Clause& clause, const schema::SliceWhere& where, schema::SliceRole role,
                  bool defers_to_slices);
  void watch(const schema::SliceWhere& where);
  void find_slices(const schema::SliceWhere& slice);
  [[nodiscard]] std::uint8_t* key_bits(const CanaryObservation& observation, std::uint8_t& keyless);
  void observe(const CanaryObservation& observation);
  void observe_rates(const CanaryObservation& observation, const schema::SliceWhere& slice,
                     std::uint8_t& bits);
  void observe_latency(const CanaryObservation& observation, const schema::SliceWhere& slice);
  [[nodiscard]] std::uint32_t share_of(std::uint32_t step) const;

  // canary_judge.cpp: what the numbers say
  [[nodiscard]] RatioContext ratio_context() const;
  [[nodiscard]] std::vector<Judged> collect(const CanaryContext& context, CanaryDecision& decision);
  [[nodiscard]] bool ordered_to_route(const schema::ClauseVerdict& verdict) const;
  void judge_together(std::vector<Judged>& judged) const;
  void judge_slices(std::vector<Judged>& judged) const;
  void wait_for_slices(std::vector<Judged>& judged) const;
  [[nodiscard]] bool accounted_for(const Judged& whole, const std::vector<Judged>& judged) const;
  void set_aside_wide_slices(std::vector<Judged>& judged) const;
  void explain_by_slices(std::vector<Judged>& judged) const;

  // canary_trips.cpp: what was ordered and has not recovered
  [[nodiscard]] Routing routing() const;
  [[nodiscard]] bool inside_fallback(const schema::SliceWhere& where) const;
  void follow_trips(const CanaryContext& context, std::vector<Judged>& judged, CanaryDecision& decision);
  void trip(const CanaryContext& context, const std::vector<Judged>& judged,
            const EscalationDecision& orders);
  [[nodiscard]] std::vector<EscalationOrder> standing() const;
  [[nodiscard]] bool holds_ramp() const;
  [[nodiscard]] bool sampling() const;
  void give_notices(const EscalationDecision& fresh, CanaryDecision& decision);

  // canary_decide.cpp
  [[nodiscard]] CanaryDecision decide(const CanaryContext& context);
  void fill_figures(const CanaryContext& context, CanaryDecision& decision) const;
  [[nodiscard]] bool ends_or_breaks(const CanaryContext& context, const EscalationDecision& fresh,
                                    CanaryDecision& decision) const;
  void choose_action(const CanaryContext& context, const EscalationDecision& fresh, const Routing& before,
                     CanaryDecision& decision) const;
  [[nodiscard]] bool choose_routing(const EscalationDecision& fresh, const Routing& before,
                                    CanaryDecision& decision) const;
  void choose_progress(const CanaryContext& context, CanaryDecision& decision) const;
  void choose_finish(const CanaryContext& context, CanaryDecision& decision) const;
  [[nodiscard]] bool out_of_time(const CanaryContext& context, CanaryDecision& decision) const;
  [[nodiscard]] bool out_of_exposure(const CanaryContext& context, CanaryDecision& decision) const;
  [[nodiscard]] schema::Verdict stage_verdict(const CanaryDecision& decision) const;

  template <typename Visit>
  void each_stream(Visit visit) {
    for (RateStream& stream : rates) visit(stream);
    for (LatencyStream& stream : latencies) visit(stream);
    for (SignalStream& stream : signals) visit(stream);
  }
  template <typename Visit>
  void each_watched(Visit visit) const {
    for (const RateStream& stream : rates) visit(stream.watched);
    for (const LatencyStream& stream : latencies) visit(stream.watched);
    for (const SignalStream& stream : signals) visit(stream.watched);
  }
};

}  // namespace driftgate::stages
