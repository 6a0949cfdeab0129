#include "daemon/store/states.hpp"

#include <array>
#include <string>

namespace driftgate::store {

using schema::Result;

namespace {

constexpr std::array<std::string_view, 13> kPromotionStates = {
    "queued",    "running",  "paused",  "awaiting_approval", "inconclusive", "rolling_back", "finalizing",
    "succeeded", "rejected", "errored", "aborted",           "expired",      "superseded"};
constexpr std::array<std::string_view, 3> kTraffics = {"never_exposed", "reverted", "live"};
constexpr std::array<std::string_view, 6> kStageRunStates = {"running",      "pass",  "violated",
                                                             "inconclusive", "error", "stopped"};
constexpr std::array<std::string_view, 5> kJobStates = {"pending", "running", "done", "failed", "cancelled"};
constexpr std::array<std::string_view, 3> kDecisions = {"approve", "reject", "waive"};

template <typename Enum, std::size_t N>
Result<Enum> parse(const std::array<std::string_view, N>& names, std::string_view text,
                   std::string_view what) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  std::string message =
      "'" + std::string(text.substr(0, 80)) + "' is no " + std::string(what) + "; allowed: ";
  for (std::size_t i = 0; i < N; ++i) message += (i > 0 ? ", " : "") + std::string(names[i]);
  return schema::fail(schema::ErrorCode::invalid_argument, std::move(message));
}

}  // namespace

std::string_view to_string(PromotionState state) {
  return kPromotionStates.at(static_cast<std::size_t>(state));
}
std::string_view to_string(Traffic traffic) {
  return kTraffics.at(static_cast<std::size_t>(traffic));
}
std::string_view to_string(StageRunState state) {
  return kStageRunStates.at(static_cast<std::size_t>(state));
}
std::string_view to_string(JobState state) {
  return kJobStates.at(static_cast<std::size_t>(state));
}
std::string_view to_string(Decision decision) {
  return kDecisions.at(static_cast<std::size_t>(decision));
}

Result<PromotionState> parse_promotion_state(std::string_view text) {
  return parse<PromotionState>(kPromotionStates, text, "state of a promotion");
}
Result<Traffic> parse_traffic(std::string_view text) {
  return parse<Traffic>(kTraffics, text, "traffic state");
}
Result<StageRunState> parse_stage_run_state(std::string_view text) {
  return parse<StageRunState>(kStageRunStates, text, "state of a stage run");
}
Result<JobState> parse_job_state(std::string_view text) {
  return parse<JobState>(kJobStates, text, "state of a job");
}
Result<Decision> parse_decision(std::string_view text) {
  return parse<Decision>(kDecisions, text, "decision");
}

bool is_terminal(PromotionState state) {
  switch (state) {
    case PromotionState::succeeded:
    case PromotionState::rejected:
    case PromotionState::errored:
    case PromotionState::aborted:
    case PromotionState::expired:
    case PromotionState::superseded:
      return true;
    case PromotionState::queued:
    case PromotionState::running:
    case PromotionState::paused:
    case PromotionState::awaiting_approval:
    case PromotionState::inconclusive:
    case PromotionState::rolling_back:
    case PromotionState::finalizing:
      return false;
  }
  return false;
}

bool holds_model(PromotionState state) {
  return state != PromotionState::queued && !is_terminal(state);
}

}  // namespace driftgate::store
