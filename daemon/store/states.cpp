#include "daemon/store/states.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "schema/failf.hpp"

namespace driftgate::store {

using schema::Result;

namespace {

/// What a state is called in messages, and the names of its values in the order of the enumeration.
template <std::size_t N>
struct Names {
  std::string_view what;
  std::array<std::string_view, N> values;
};

constexpr Names<13> names_of(PromotionState) {
  return {"state of a promotion",
          {"queued", "running", "paused", "awaiting_approval", "inconclusive", "rolling_back", "finalizing",
           "succeeded", "rejected", "errored", "aborted", "expired", "superseded"}};
}
constexpr Names<3> names_of(Traffic) {
  return {"traffic state", {"never_exposed", "reverted", "live"}};
}
constexpr Names<6> names_of(StageRunState) {
  return {"state of a stage run", {"running", "pass", "violated", "inconclusive", "error", "stopped"}};
}
constexpr Names<5> names_of(JobState) {
  return {"state of a job", {"pending", "running", "done", "failed", "cancelled"}};
}
constexpr Names<3> names_of(Decision) {
  return {"decision", {"approve", "reject", "waive"}};
}

}  // namespace

template <StoredState T>
std::string_view to_string(T state) {
  return names_of(state).values.at(static_cast<std::size_t>(state));
}

template <StoredState T>
Result<T> parse_state(std::string_view text) {
  constexpr auto names = names_of(T{});
  const auto found = std::ranges::find(names.values, text);
  if (found != names.values.end()) return static_cast<T>(found - names.values.begin());
  return schema::failf(schema::ErrorCode::invalid_argument, "'{}' is not a {}; allowed: {}",
                       text.substr(0, 80), names.what, fmt::join(names.values, ", "));
}

template std::string_view to_string(PromotionState state);
template std::string_view to_string(Traffic state);
template std::string_view to_string(StageRunState state);
template std::string_view to_string(JobState state);
template std::string_view to_string(Decision state);
template Result<PromotionState> parse_state(std::string_view text);
template Result<Traffic> parse_state(std::string_view text);
template Result<StageRunState> parse_state(std::string_view text);
template Result<JobState> parse_state(std::string_view text);
template Result<Decision> parse_state(std::string_view text);

bool is_terminal(PromotionState state) {
  return state >= PromotionState::succeeded;
}

bool holds_model(PromotionState state) {
  return state != PromotionState::queued && !is_terminal(state);
}

}  // namespace driftgate::store
