#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/store/promotions/router_windows.hpp"
#include "tests/daemon/evidence/entries.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;

namespace {

constexpr int kRounds = 25;
constexpr int kThreads = 4;

/// What the child tells of a write that was acknowledged to it; smaller than PIPE_BUF, so never torn.
struct Ack {
  std::int64_t seq;
  Hash leaf;
};

/// Entry and state in one transaction: the window counter of `thread` always equals its entries in the log.
Result<Appended> write_once(store::Store& store, int thread) {
  const std::string router = "thread-" + std::to_string(thread);
  return store.write("load", [&](store::Tx& tx) -> Result<Appended> {
    const std::uint64_t number = must(store::window_watermark(tx, router)) + 1;
    must(store::advance_watermark(tx, router, number, 1));
    auto entry = draft(1, std::string(number % 3'000, 'x'));
    entry.actor = router;
    return append(tx, entry);
  });
}

[[noreturn]] void run_child(const std::filesystem::path& folder, int pipe) {
  auto store = open_store(folder);
  auto heads = must(HeadPublisher::start(*store, {}));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      while (true) {
        const auto done = write_once(*store, thread);
        if (!done) ::_exit(3);
        const Ack ack{done->seq, leaf_hash(done->bytes)};
        if (::write(pipe, &ack, sizeof ack) != sizeof ack) ::_exit(4);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ::_exit(5);
}

/// Reads acknowledgements until the child is killed: `alive_us` after the first one.
std::vector<Ack> kill_at_random(pid_t child, int pipe, std::int64_t alive_us) {
  using Clock = std::chrono::steady_clock;
  std::vector<Ack> acks;
  auto deadline = Clock::now() + std::chrono::seconds(120);
  bool killed = false;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{pipe, POLLIN, 0};
    if (!killed && (left <= 0 || ::poll(&ready, 1, static_cast<int>(left)) == 0)) {
      ::kill(child, SIGKILL);
      killed = true;
    }
    if (!killed && Clock::now() >= deadline) continue;
    Ack ack;
    const ssize_t size = ::read(pipe, &ack, sizeof ack);
    if (size != sizeof ack) break;  // end of file: the child is gone and the pipe is empty
    if (acks.empty()) deadline = Clock::now() + std::chrono::microseconds(alive_us);
    acks.push_back(ack);
  }
  if (!killed) ::kill(child, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  return acks;
}

void check_after_crash(const std::filesystem::path& folder,
                       const std::map<std::int64_t, Hash>& acknowledged) {
  auto store = open_store(folder);
  auto heads = must(HeadPublisher::start(*store, {}));
  const auto size = must(verify_log(*store));
  if (!acknowledged.empty()) CHECK(size > static_cast<std::uint64_t>(acknowledged.rbegin()->first));
  read(*store, [&](store::Reader& reader) -> Result<void> {
    for (const auto& [seq, leaf] : acknowledged) {
      const auto entry = must(find_entry(reader, seq));
      REQUIRE(entry.has_value());
      REQUIRE(leaf_hash(entry->bytes) == leaf);
    }
    std::uint64_t windows = 0;
    for (int thread = 0; thread < kThreads; ++thread) {
      windows += must(store::window_watermark(reader, "thread-" + std::to_string(thread)));
    }
    CHECK(windows == size);
    return {};
  });
}

}  // namespace

TEST_CASE("kill -9 under load loses nothing that was acknowledged and tears nothing") {
  const std::uint64_t seed = seed_of_run();
  INFO("seed (set DRIFTGATE_TEST_SEED to repeat): " << seed);
  std::mt19937_64 random(seed);
  TempDir dir;
  std::map<std::int64_t, Hash> acknowledged;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::close(ends[0]);
      run_child(dir.path(), ends[1]);
    }
    ::close(ends[1]);
    const auto acks = kill_at_random(child, ends[0], static_cast<std::int64_t>(random() % 60'000));
    ::close(ends[0]);
    REQUIRE(!acks.empty());
    for (const Ack& ack : acks) acknowledged.emplace(ack.seq, ack.leaf);
    check_after_crash(dir.path(), acknowledged);
  }
  MESSAGE("acknowledged over all rounds: " << acknowledged.size());
}
