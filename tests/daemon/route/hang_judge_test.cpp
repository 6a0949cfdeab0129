#include "daemon/route/control/hang_judge.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace driftgate::route;
using namespace std::chrono_literals;

namespace {

/// A router of two workers, whose threads a test moves.
struct Signs final : RouterSigns {
  std::vector<WorkerSign> beats{{101, 0}, {102, 0}};
  std::vector<ThreadState> states{{100, 'S', 0ms}, {101, 'S', 0ms}, {102, 'S', 0ms}, {103, 'S', 0ms}};
  int silent = 0;
  std::function<void()> on_states;

  std::vector<WorkerSign> workers() override { return beats; }
  std::vector<ThreadState> threads() override {
    if (on_states) on_states();
    return states;
  }
  int control_tid() override { return 103; }
  int unanswered() override { return silent; }
  void beat(std::size_t worker) { ++beats[worker].beats; }
  void beat_all() {
    for (auto& worker : beats) ++worker.beats;
  }
};

/// Looks every 200 ms while `each` moves the signs; in how many ms the judge found a reason, or −1.
struct Bench {
  Signs signs;
  HangJudge judge;
  HangJudge::Time now{1h};
  std::string reason;

  int looks(int count, const std::function<void(int)>& each = {}) {
    for (int i = 0; i < count; ++i) {
      now += 200ms;
      if (each) each(i);
      if (const auto found = judge.look(signs, now)) {
        reason = *found;
        return (i + 1) * 200;
      }
    }
    return -1;
  }
};

}  // namespace

TEST_CASE("a router whose loops come round and whose control thread answers does not hang") {
  Bench bench;
  CHECK(bench.looks(100, [&](int) { bench.signs.beat_all(); }) == -1);
}

TEST_CASE("a stopped process is found within a second and a half") {
  Bench bench;
  REQUIRE(bench.looks(1) == -1);
  for (auto& thread : bench.signs.states) thread.state = 'T';
  CHECK(bench.looks(10) == 1'000);
  CHECK(bench.reason == "event loop 1 of 2 has not moved for 1000 ms (state T)");
  CHECK(bench.now - bench.judge.since() == 1'000ms);
}

TEST_CASE("one worker that hangs is enough, though the rest answers") {
  Bench bench;
  REQUIRE(bench.looks(1) == -1);
  CHECK(bench.looks(10, [&](int) { bench.signs.beat(0); }) == 1'000);
  CHECK(bench.reason.starts_with("event loop 2 of 2"));
}

TEST_CASE("a control thread that answers nothing hangs after the second question") {
  Bench bench;
  const auto beat = [&](int) { bench.signs.beat_all(); };
  REQUIRE(bench.looks(5, beat) == -1);
  bench.signs.silent = 1;
  CHECK(bench.looks(5, beat) == -1);
  bench.signs.silent = 2;
  CHECK(bench.looks(5, beat) == 200);
  CHECK(bench.reason.starts_with("the thread of the control socket has not moved"));
}

TEST_CASE("a thread that gets no processor is slow, one that uses a second of it for one round hangs") {
  Bench bench;
  REQUIRE(bench.looks(1) == -1);
  auto& thread = bench.signs.states[2];
  thread.state = 'R';
  CHECK(bench.looks(50, [&](int) { bench.signs.beat(0); }) == -1);
  const int found = bench.looks(50, [&](int i) {
    bench.signs.beat(0);
    thread.cpu = 100ms * (i + 1);
  });
  CHECK(found == 2'000);  // a second of processor time at half a processor
}

TEST_CASE("a thread that sleeps in a process whose threads wait for processors is slow, for half a minute") {
  Bench bench;
  auto& starved = bench.signs.states[2];
  const auto starve = [&](int) {
    bench.signs.beat_all();
    starved.waited += 150ms;
  };
  REQUIRE(bench.looks(1, starve) == -1);
  bench.signs.silent = 1;
  CHECK(bench.looks(5, starve) == -1);
  bench.signs.silent = 2;
  CHECK(bench.looks(300, starve) == 29'000);
  CHECK(bench.reason.starts_with("the thread of the control socket has not moved for 30000 ms"));
}

TEST_CASE("a process that was stopped hangs at once, however long its threads waited for processors before") {
  Bench bench;
  REQUIRE(bench.looks(1) == -1);
  bench.signs.states[2].waited = 10s;
  for (auto& thread : bench.signs.states) thread.state = 'T';
  CHECK(bench.looks(10) == 1'000);
}

TEST_CASE("waiting for a disk is not hanging, for half a minute") {
  Bench bench;
  REQUIRE(bench.looks(1) == -1);
  bench.signs.states[1].state = 'D';
  CHECK(bench.looks(300) == 30'000);
}

TEST_CASE("a judge that was itself called late starts over") {
  Bench bench;
  REQUIRE(bench.looks(1) == -1);
  for (int i = 0; i < 20; ++i) {
    CHECK(bench.looks(4) == -1);
    bench.now += 1s;  // the daemon was not scheduled
  }
  CHECK(bench.looks(10) == 1'200);
}

TEST_CASE("a loop that moves while it is looked at was only slow") {
  Bench bench;
  REQUIRE(bench.looks(1) == -1);
  bench.signs.on_states = [&] { bench.signs.beat_all(); };
  CHECK(bench.looks(50) == -1);
}

TEST_CASE("a router of an older version is judged by its answers alone") {
  Bench bench;
  bench.signs.beats.clear();
  CHECK(bench.looks(50) == -1);
  bench.signs.silent = 2;
  CHECK(bench.looks(5) == 200);
}
