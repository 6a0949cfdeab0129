#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "stages/canary/canary.hpp"

namespace driftgate::simulation {

/// A canary under live traffic of distinct keys in eight languages, one window and one decision every 5 s as
/// the daemon makes them. Either arm may stall: for `stall_s` all that it serves fails, at times that are
/// independent of the other arm's and on average `stall_every_s` apart.
struct BurstPlan {
  std::vector<std::uint32_t> shares_bp{100, 500, 2'500, 5'000};
  double step_s = 1'250;  ///< each share lasts as long
  double per_second = 20;
  double base_rate = 0.01;  ///< of the incumbent outside stalls
  double ratio = 1;         ///< the candidate's rate outside stalls, as a multiple of it
  double more_stalls = 1;   ///< the candidate's stalls, as a multiple of the incumbent's
  double max_ratio = 1;
  double stall_s = 0;  ///< 0: nothing stalls
  double stall_every_s = 200;
  double stalls_from_s = -std::numeric_limits<double>::infinity();  ///< since the canary began
  double stalls_to_s = std::numeric_limits<double>::infinity();
  double history_s = 1'800;     ///< of the incumbent, before the canary
  bool any_slice = true;        ///< a rule sends slices away that fail too often
  double broken_language = -1;  ///< failure rate of one language on the candidate; negative: like the rest
};

struct BurstOutcome {
  bool rolled_back = false, sent_away = false;
  bool switched = false;     ///< single failures no longer counted at the end
  bool label_alone = false;  ///< the label e-process alone, at the level of both, would have rolled back
  double at_s = 0;           ///< of the rollback, else of the end
  std::uint64_t exposed = 0;
};

/// The contract of these canaries: the default levels, the first attempt, errors with a `max` that is never
/// reached and a `max_ratio`.
[[nodiscard]] schema::Contract burst_contract(const BurstPlan& plan);
[[nodiscard]] BurstOutcome run_bursts(const schema::Contract& contract, const BurstPlan& plan,
                                      std::uint64_t seed);

}  // namespace driftgate::simulation
