#include "daemon/app/background_look.hpp"

#include <doctest/doctest.h>

#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>

using driftgate::app::BackgroundLook;

namespace {

constexpr std::chrono::seconds kPatience{120};
constexpr std::chrono::hours kNever{1};

/// Counts looks; each one waits until it is let go. Shared with the look, which may outlive the test.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0, allowed = 0, ended = 0;

  int pass() {
    std::unique_lock lock(mutex);
    const int number = ++begun;
    changed.notify_all();
    changed.wait(lock, [&] { return allowed >= number; });
    ended = number;
    changed.notify_all();
    return number;
  }
  void allow(int number) {
    const std::lock_guard lock(mutex);
    allowed = number;
    changed.notify_all();
  }
  void await(const int Gate::*counter, int number) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, kPatience, [&] { return this->*counter >= number; }));
  }
};

void await_value(const BackgroundLook<int>& look, int value) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (look.seen().value != value) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::yield();
  }
}

}  // namespace

TEST_CASE("while a look hangs, what was seen before it is told, with an age that grows") {
  const auto gate = std::make_shared<Gate>();
  BackgroundLook<int> look(kNever, [gate] { return gate->pass(); });
  gate->await(&Gate::begun, 1);
  CHECK_FALSE(look.seen().value.has_value());
  gate->allow(1);
  await_value(look, 1);
  look.look_soon();
  gate->await(&Gate::begun, 2);
  const auto age_ms = look.seen().age_ms;
  while (look.seen().age_ms <= age_ms) std::this_thread::yield();
  CHECK(look.seen().value == 1);
  gate->allow(2);
  await_value(look, 2);
}

TEST_CASE("nobody waits at the end for a look that hangs") {
  const auto gate = std::make_shared<Gate>();
  {
    const BackgroundLook<int> look(kNever, [gate] { return gate->pass(); });
    gate->await(&Gate::begun, 1);
  }
  CHECK(gate->ended == 0);
  gate->allow(1);
  gate->await(&Gate::ended, 1);
}

TEST_CASE("what is looked at is looked at again after the interval") {
  const auto gate = std::make_shared<Gate>();
  gate->allow(3);
  const BackgroundLook<int> look(std::chrono::milliseconds(1), [gate] { return gate->pass(); });
  await_value(look, 3);
  gate->await(&Gate::begun, 4);
  gate->allow(std::numeric_limits<int>::max());
}
