#include "daemon/route/relay/deadlines.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

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

TEST_CASE("however often times are changed, a watch fires with the first tick at its newest time or later") {
  struct Timer {
    Timer(Deadlines& deadlines, std::vector<std::size_t>& fired, std::size_t number)
        : watch(deadlines, [&fired, number] { fired.push_back(number); }) {}
    Deadlines::Watch watch;
    Deadlines::Time at = Deadlines::Time::max();  ///< as a watch that is looked at with each tick has it
  };
  constexpr std::uint64_t kSeed = 11;
  constexpr std::array<std::int64_t, 6> kReaches{0,      15,     300,
                                                 10'300, 60'000, 200'000};  // ms, beyond the wheel too
  std::mt19937_64 random(kSeed);
  Deadlines deadlines;
  std::vector<std::size_t> fired;
  std::vector<std::unique_ptr<Timer>> timers;
  for (std::size_t i = 0; i < 40; ++i) timers.push_back(std::make_unique<Timer>(deadlines, fired, i));
  auto now = kStart;
  deadlines.tick(now);
  for (int tick = 0; tick < 20'000; ++tick) {
    CAPTURE(tick);
    for (int change = 0; change < 3; ++change) {
      const auto number = random() % timers.size();
      auto& timer = *timers[number];
      const auto reach = kReaches[random() % kReaches.size()];
      timer.at = now + milliseconds(static_cast<std::int64_t>(random() % 1'000) * reach / 1'000);
      if (random() % 5 == 0) timer.at = Deadlines::Time::max();
      if (timer.at == Deadlines::Time::max()) {
        timer.watch.clear();
      } else {
        timer.watch.set(timer.at);
      }
      if (random() % 50 == 0) timers[number] = std::make_unique<Timer>(deadlines, fired, number);
    }
    now += milliseconds(10 + static_cast<std::int64_t>(random() % 30));
    fired.clear();
    deadlines.tick(now);
    std::vector<std::size_t> due;
    for (std::size_t i = 0; i < timers.size(); ++i) {
      if (timers[i]->at > now) continue;
      due.push_back(i);
      timers[i]->at = Deadlines::Time::max();
    }
    std::ranges::sort(fired);
    REQUIRE(fired == due);
  }
}

TEST_CASE("a watch that is set while it fires, or destroyed before, is no fault") {
  Deadlines deadlines;
  int fired = 0;
  std::unique_ptr<Deadlines::Watch> again;
  again = std::make_unique<Deadlines::Watch>(deadlines, [&] {
    if (++fired < 3) again->set(kStart);  // past
  });
  deadlines.tick(kStart);
  again->set(kStart);
  for (int i = 1; i <= 5; ++i) deadlines.tick(kStart + i * Deadlines::kTick);
  CHECK(fired == 3);
  again->set(kStart + std::chrono::seconds(1));
  again.reset();
  for (int i = 6; i <= 60; ++i) deadlines.tick(kStart + i * Deadlines::kTick);
  CHECK(fired == 3);
}
