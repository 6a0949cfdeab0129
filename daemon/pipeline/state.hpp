#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/pipeline/settings.hpp"
#include "daemon/pipeline/stages/incumbent_history.hpp"
#include "daemon/pipeline/stages/progress.hpp"
#include "daemon/pipeline/stages/shadow_tally.hpp"
#include "daemon/pipeline/stages/traffic_rate.hpp"
#include "daemon/route/table/route.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/registry/versions.hpp"
#include "schema/contract/contract.hpp"
#include "stages/canary/canary.hpp"

namespace driftgate::jobs {
class JobRunner;
}

namespace driftgate::pipeline {

/// The stream state that holds the memory of all tests of a canary.
inline constexpr const char* kCanaryStream = "canary";

/// How long something waits that could not be committed so many times in a row: 1 s, doubling up to 60 s.
[[nodiscard]] constexpr std::int64_t retry_wait_us(std::uint32_t failures) {
  return std::min(std::int64_t{1'000'000} << std::min(failures, 6U), std::int64_t{60'000'000});
}

/// Why and how a promotion ends before success.
struct Withdrawal {
  store::PromotionState target = store::PromotionState::aborted;
  store::StageRunState run_state = store::StageRunState::stopped;
  std::string actor{}, reason{};
  bool hold = false;      ///< set a hold on the model
  std::string report{};   ///< digest of the run's report; "" = none
  std::string outcome{};  ///< JSON object with figures; "" = none
};

/// A promotion that has not ended, as the loop holds it; everything in it can be rebuilt from the store.
struct Live {
  store::PromotionRow row;
  store::StageRunRow run;  ///< key.stage is empty while queued
  StageProgress progress;
  std::shared_ptr<const schema::Contract> contract;
  store::VersionRow candidate, baseline, fallback;  ///< fallback.id is empty when there is none
  std::optional<stages::CanaryState> canary;
  std::optional<ShadowTally> tally;                ///< of a shadow stage, from its first window on
  std::shared_ptr<const Withdrawal> wanted_end{};  ///< requested by a person, not committed yet
  bool evaluating = false;                         ///< an evaluation beside the loop will come back
  bool outage_decided = false;                     ///< the canary was decided on its engine's present outage
  std::int64_t retry_at_us = 0;  ///< reload from the store and go on then; 0 = nothing failed
  std::uint32_t failures = 0;    ///< in a row, of steps that could not be committed
};

/// Whether the promotion's stage continues, if only at the share that it has.
[[nodiscard]] inline bool stage_is_open(store::PromotionState state) {
  return state == store::PromotionState::running || state == store::PromotionState::paused ||
         state == store::PromotionState::awaiting_approval;
}

/// An engine that does not answer: the data plane's breaker for it is open, as it said last.
struct EngineOutage {
  bool trying = false;                ///< half open: one request at a time tries the engine
  std::int64_t opened_us = 0;         ///< by the daemon's clock
  std::int64_t first_failure_us = 0;  ///< of the failures that opened it, by the router's clock
  std::uint32_t failures = 0;         ///< in a row by now
  std::string reason;                 ///< of the newest
};

/// A model's route as wanted and as read back.
struct ModelState {
  std::uint64_t epoch = 0;
  route::ModelRoute desired{};
  bool agreed = false;  ///< read back as desired
  /// The data plane was given a route without the candidate ahead of a COMMIT that failed; it stays there
  /// until one succeeds.
  bool kept_safe = false;
  std::uint64_t given_revision = 0;  ///< of the newest route that went out ahead of its record
  std::int64_t retry_at_us = 0;
  std::uint32_t failures = 0;
  std::int64_t last_window_us = 0;
  TrafficRate rate{};
  IncumbentHistory incumbent{};
};

/// Everything that a decision about a promotion may depend on. Deciding reads this and changes nothing.
struct Facts {
  const Live& live;
  const ModelState* model = nullptr;  ///< null when the model is not known yet
  std::int64_t now_us = 0;
  const Settings& settings;
  jobs::JobRunner* runner = nullptr;  ///< says where jobs are that end with their stage; null: nobody does
};

}  // namespace driftgate::pipeline
