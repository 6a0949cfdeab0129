#include "daemon/store/states.hpp"

#include <doctest/doctest.h>

using namespace driftgate::store;

namespace {

template <typename T>
void check_names(T last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    const auto state = static_cast<T>(i);
    CHECK(parse_state<T>(to_string(state)) == state);
  }
}

}  // namespace

TEST_CASE("every state reads back from its name and nothing else does") {
  check_names(PromotionState::superseded);
  check_names(StageRunState::stopped);
  check_names(JobState::cancelled);
  check_names(Traffic::live);
  check_names(Decision::waive);
  for (const char* text : {"", "Running", "running "}) CHECK(!parse_state<PromotionState>(text));
}

TEST_CASE("a promotion holds its model from its start to its end") {
  using enum PromotionState;
  for (const auto state : {succeeded, rejected, errored, aborted, expired, superseded}) {
    CHECK(is_terminal(state));
    CHECK(!holds_model(state));
  }
  for (const auto state : {running, paused, awaiting_approval, inconclusive, rolling_back, finalizing}) {
    CHECK(!is_terminal(state));
    CHECK(holds_model(state));
  }
  CHECK(!is_terminal(queued));
  CHECK(!holds_model(queued));
}
