#include "daemon/route/relay/deadlines.hpp"

#include <doctest/doctest.h>

using namespace driftgate::route;

namespace {

using std::chrono::milliseconds;
const Deadlines::Time kStart{std::chrono::hours(1)};

}  // namespace

TEST_CASE("a watch fires once, with the first tick at its time or later") {
  Deadlines deadlines;
  int fired = 0;
  Deadlines::Watch watch(deadlines, [&] { ++fired; });
  deadlines.tick(kStart);
  deadlines.tick(kStart + milliseconds(20));
  watch.set(kStart + milliseconds(50));
  deadlines.tick(kStart + milliseconds(40));
  CHECK(fired == 0);
  deadlines.tick(kStart + milliseconds(60));
  CHECK(fired == 1);
  deadlines.tick(kStart + milliseconds(80));
  CHECK(fired == 1);
}

TEST_CASE(
    "a thread that was held up reads what arrived before it blames anybody, and is not held up for ever") {
  Deadlines deadlines;
  int fired = 0;
  Deadlines::Watch watch(deadlines, [&] { ++fired; });
  deadlines.tick(kStart);
  deadlines.tick(kStart + milliseconds(20));
  watch.set(kStart + milliseconds(50));
  deadlines.tick(kStart + milliseconds(900));  // what was waited for may lie in the socket
  CHECK(fired == 0);
  deadlines.tick(kStart + milliseconds(920));
  CHECK(fired == 1);
  // Where every tick is late, every other one fires.
  watch.set(kStart + milliseconds(1'000));
  deadlines.tick(kStart + milliseconds(2'000));
  CHECK(fired == 1);
  deadlines.tick(kStart + milliseconds(3'000));
  CHECK(fired == 2);
}
