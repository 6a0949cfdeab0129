#include "daemon/store/states.hpp"

#include <doctest/doctest.h>

using namespace driftgate::store;

TEST_CASE("every state reads back from its name and nothing else does") {
  for (int i = 0; i <= static_cast<int>(PromotionState::superseded); ++i) {
    const auto state = static_cast<PromotionState>(i);
    CHECK(parse_promotion_state(to_string(state)) == state);
    CHECK(!(is_terminal(state) && holds_model(state)));
  }
  for (int i = 0; i <= static_cast<int>(StageRunState::stopped); ++i) {
    CHECK(parse_stage_run_state(to_string(static_cast<StageRunState>(i))) == static_cast<StageRunState>(i));
  }
  for (int i = 0; i <= static_cast<int>(JobState::cancelled); ++i) {
    CHECK(parse_job_state(to_string(static_cast<JobState>(i))) == static_cast<JobState>(i));
  }
  for (int i = 0; i <= static_cast<int>(Traffic::live); ++i) {
    CHECK(parse_traffic(to_string(static_cast<Traffic>(i))) == static_cast<Traffic>(i));
  }
  for (int i = 0; i <= static_cast<int>(Decision::waive); ++i) {
    CHECK(parse_decision(to_string(static_cast<Decision>(i))) == static_cast<Decision>(i));
  }
  CHECK(!parse_promotion_state(""));
  CHECK(!parse_promotion_state("Running"));
  CHECK(!parse_promotion_state("running "));
}
