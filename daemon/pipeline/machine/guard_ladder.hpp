#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/pipeline/change.hpp"
#include "daemon/pipeline/guard/live_guard.hpp"
#include "daemon/pipeline/requests/fallback.hpp"

// What is done about the alarm of a guard, as far as it can be: the order, else the next one. Pure.
namespace driftgate::pipeline::machine {

/// What was seen of those that could serve instead of the guarded version.
struct GuardFacts {
  std::string previous;          ///< engine of the version before; "" = there is none
  std::string previous_refused;  ///< why it cannot serve; "" = it can
  std::string previous_text;     ///< what was seen of it
  Capacity fallback;             ///< of the engine of the fallback kernel
};

/// What an alarm comes to, weakest first.
enum class GuardAction : std::uint8_t { hold, route_slice, fallback, rollback };
[[nodiscard]] std::string_view to_string(GuardAction action);

/// An action that was looked at.
struct GuardTry {
  GuardAction action = GuardAction::hold;
  bool possible = false;
  std::string reason;
};
/// The first action that is possible, and those that were looked at before it.
struct GuardChoice {
  GuardAction action = GuardAction::hold;
  std::vector<GuardTry> tried;
};

/// rollback (and block): rollback, else fallback, else hold. fallback: fallback, else rollback, else hold.
/// route_slice: as fallback, for the slices. A hold is always possible: people are told, and nothing is
/// promoted.
[[nodiscard]] GuardChoice choose(const GuardOrder& order, const GuardFacts& facts);
/// One sentence: what was done, and why not what was ordered.
[[nodiscard]] std::string reason_of(const GuardOrder& order, const GuardChoice& choice);

/// Sends all traffic, or the order's slices, to the fallback kernel and holds the model; `hold` changes no
/// route. `served`: the promotion whose version is guarded.
[[nodiscard]] Change send_away(const Facts& served, const GuardOrder& order, GuardAction action,
                               const std::string& reason);
/// What the guard sent to the fallback kernel comes back to the incumbent.
[[nodiscard]] Change take_back_from_fallback(const Facts& served, const GuardOrders& orders,
                                             const std::string& actor, const std::string& reason);

}  // namespace driftgate::pipeline::machine
