#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stages/canary/canary.hpp"
#include "stages/canary/canary_scopes.hpp"
#include "stages/canary/canary_streams.hpp"
#include "stages/statistics/split_guard.hpp"

namespace driftgate::stages {

/// The number of router processes whose newest window number is remembered. The one that was heard of least
/// recently is forgotten first.
inline constexpr std::size_t kMaxRouters = 64;
/// How often traffic is given back from the fallback kernel to try the candidate again. The dwell doubles
/// each time; after another violation the traffic stays on the fallback kernel.
inline constexpr std::uint32_t kMaxProbations = 3;

/// What has been counted for a sticky key, each thing at most once.
enum KeyBit : std::uint8_t {
  kKeySeen = 1,       ///< in the split guard
  kKeyCandidate = 2,  ///< a request that the candidate served
  kKeyFailed = 4,     ///< a failure, on either arm
  kKeyCounted = 16,   ///< a first request, on either arm
  kKeyWithheld = 32   ///< a request for the candidate that was withheld from it
};

struct CanaryState::Impl {
  /// What is known of a sticky key.
  struct Key {
    std::uint8_t bits = 0;  ///< KeyBit
    // The last of its periods in which it was counted, from 1 in that of `origin_us`; 0: none.
    std::uint16_t hour = 0;             ///< a request that the candidate served (KeyHours)
    std::uint16_t latency[2] = {0, 0};  ///< an answer of [incumbent, candidate] with a latency
  };
  /// What goes to the fallback kernel. `slices` is sorted.
  struct Routing {
    std::vector<schema::SliceWhere> slices;
    bool all = false;
    bool operator==(const Routing&) const = default;
  };
  /// A verdict of this decision and the stream that it is from.
  struct Judged {
    schema::ClauseVerdict verdict;
    const WatchedClause* watched = nullptr;
    /// The stream with the counts of failures; null for latencies and signals.
    const RateStream* rate = nullptr;
    /// The verdict orders nothing, since the order on another verdict takes care of it.
    bool set_aside = false;
    /// The verdict orders nothing new: an order on it is in force, or it was carried over.
    bool held = false;

    [[nodiscard]] bool is_fresh() const { return !set_aside && !held; }
  };

  // From the contract and the settings. Serialised only as far as needed to check and restore them.
  std::string contract_digest;
  schema::CanaryPlan plan;
  schema::Escalation escalation;
  std::vector<std::uint32_t> prompt_bounds;
  CanarySettings settings;
  CanaryLevels levels;
  CanaryScopes scopes;
  std::uint32_t strata = 1;

  // The state of the streams.
  std::uint32_t started = 0;  ///< the number of steps, with the bake, that have begun
  std::vector<RateStream> rates;
  std::vector<LatencyStream> latencies;
  std::vector<SignalStream> signals;
  std::vector<schema::SliceWhere> found;  ///< slices found in traffic, in the order of discovery
  bool found_full = false;                ///< a further slice was found and is not watched
  SplitGuard split;
  FailureHistory incumbent, candidate;  ///< of this canary; that of the incumbent includes the time before it
  LatencyHistory incumbent_latency;     ///< of this canary and the time before it
  schema::Swings swings = schema::Swings::own;
  bool dependent = false;  ///< failures of an arm cluster in time: single ones no longer count
  RatioPlan ratio_plan;
  std::int64_t origin_us = 0;                   ///< of the first request that was counted; 0: none
  std::unordered_map<std::uint64_t, Key> keys;  ///< by the hash of the key
  std::vector<std::pair<std::string, std::uint64_t>> windows;  ///< newest window of each router, newest last
  std::vector<std::string> noticed;  ///< notices that were given for violations which have not ended
  std::uint64_t exposed_requests = 0, exposed_keys = 0, keys_in_step = 0, uncounted_keys = 0;
  std::uint64_t failed_keys_candidate = 0, failed_requests_candidate = 0, failed_requests_incumbent = 0;
  std::uint64_t windows_read = 0;
  std::int64_t first_failure_us = 0;  ///< 0: none

  // canary.cpp
  void add_stream(const schema::Clause& clause, const schema::SliceWhere& where, schema::SliceRole role,
                  bool defers_to_slices);
  void watch(const schema::SliceWhere& where);
  void find_slices(const schema::SliceWhere& slice);
  /// Whether the request is the first of its key in a period of `length_us`; `last` is the last one that was
  /// counted.
  [[nodiscard]] bool begins_period(const CanaryObservation& observation, std::int64_t length_us,
                                   std::uint16_t& last);
  [[nodiscard]] Key* key_of(const CanaryObservation& observation, Key& keyless);
  void observe(const CanaryObservation& observation);
  void observe_rates(const CanaryObservation& observation, const schema::SliceWhere& slice, Key& key);
  void observe_latency(const CanaryObservation& observation, const schema::SliceWhere& slice, Key& key);
  [[nodiscard]] std::uint32_t share_of(std::uint32_t step) const;

  // canary_codec.cpp
  void restore_histories(const nlohmann::json& value, int version);

  // canary_judge.cpp: verdicts from the numbers
  [[nodiscard]] RatioContext ratio_context();
  [[nodiscard]] std::vector<Judged> collect(const CanaryContext& context, CanaryDecision& decision);
  [[nodiscard]] bool ordered_to_route(const schema::ClauseVerdict& verdict) const;
  void judge_outage(const EngineDown& down, std::vector<Judged>& judged) const;
  void judge_together(std::vector<Judged>& judged) const;
  void judge_slices(std::vector<Judged>& judged) const;
  void wait_for_slices(std::vector<Judged>& judged) const;
  [[nodiscard]] bool accounted_for(const Judged& whole, const std::vector<Judged>& judged) const;
  void set_aside_wide_slices(std::vector<Judged>& judged) const;
  void explain_by_slices(std::vector<Judged>& judged) const;

  // canary_trips.cpp: orders that have not ended
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
