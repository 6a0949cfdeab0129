#include "gpu/ranks/thread_ranks.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "gpu/ranks/exchange_thread.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace std::chrono_literals;

namespace {

template <typename T>
schema::Result<std::vector<T>> gathered(Collective& collective, T mine, const Wait& wait) {
  std::vector<T> all(collective.size());
  auto ok =
      collective.all_gather(wait, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  if (!ok) return std::unexpected(ok.error());
  return all;
}

/// Ranks that stall until the test is over.
struct Stall {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::atomic<int> ended = 0, begun = 0;
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return over; });
    ++ended;
  }
  /// Releases the stalled ranks, and returns when `ranks` of them have ended.
  void release(int ranks) {
    {
      const std::lock_guard lock(mutex);
      over = true;
    }
    changed.notify_all();
    while (ended < ranks) std::this_thread::yield();
  }
};

void check_names(const schema::Error& error, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    CAPTURE(part);
    CAPTURE(error.describe());
    CHECK(error.describe().find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("exchanges may be finished in any order after they were begun, and each gets its own data") {
  const auto run = run_in_threads(3, [](Collective& collective) -> schema::Result<void> {
    constexpr std::uint32_t kBegun = 8;
    const std::uint32_t rank = collective.rank();
    for (std::uint32_t round = 0; round < 50; ++round) {
      std::uint64_t numbers[kBegun];
      for (std::uint32_t i = 0; i < kBegun; ++i) {
        const std::uint32_t mine = round * 1'000 + i * 10 + rank;
        const auto gathering = i % 2 == 0 ? Collective::Gathering::at_all : Collective::Gathering::at_root;
        const auto begun = collective.begin(gathering, {"numbers"}, std::as_bytes(std::span(&mine, 1)));
        if (!begun) return std::unexpected(begun.error());
        numbers[i] = *begun;
      }
      for (std::uint32_t i = kBegun; i-- > 0;) {
        std::vector<std::uint32_t> all(i % 2 == 0 || rank == 0 ? 3 : 0);
        if (auto ok = collective.finish(numbers[i], {"numbers"}, std::as_writable_bytes(std::span(all))); !ok)
          return ok;
        for (std::uint32_t other = 0; other < all.size(); ++other) {
          if (all[other] != round * 1'000 + i * 10 + other)
            return schema::fail(schema::ErrorCode::internal, "wrong number");
        }
      }
    }
    return {};
  });
  CHECK(run.result);
}

TEST_CASE("an exchange that another rank never begins ends at its deadline and names that rank") {
  const auto run = run_in_threads(2, [](Collective& collective) -> schema::Result<void> {
    const std::byte mine{7};
    if (collective.rank() == 1) return {};
    const auto begun = collective.begin(Collective::Gathering::at_all, {"bytes"}, std::span(&mine, 1));
    if (!begun) return std::unexpected(begun.error());
    std::byte all[2];
    return collective.finish(*begun, {"bytes", 50ms}, all);
  });
  REQUIRE_FALSE(run.result);
  CHECK(run.result.error().code == schema::ErrorCode::deadline_exceeded);
  check_names(run.result.error(), {"all_gather (bytes)", "rank 1 of 2"});
}

TEST_CASE("every rank gets what all ranks gave, in rank order") {
  const auto run = run_in_threads(5, [](Collective& collective) -> schema::Result<void> {
    const auto rank = collective.rank();
    for (std::uint32_t round = 0; round < 200; ++round) {
      const auto all = gathered(collective, std::uint64_t{rank} * 1'000 + round, {"numbers"});
      if (!all) return std::unexpected(all.error());
      for (std::uint32_t i = 0; i < 5; ++i) {
        if ((*all)[i] != std::uint64_t{i} * 1'000 + round)
          return schema::fail(schema::ErrorCode::internal, "wrong number");
      }
      std::uint32_t first = rank == 0 ? round + 7 : 0;
      auto ok = collective.broadcast({"a number"}, std::as_writable_bytes(std::span(&first, 1)));
      if (!ok) return ok;
      if (first != round + 7) return schema::fail(schema::ErrorCode::internal, "wrong broadcast");
      const auto texts = collective.gather_text({"texts"}, std::string(rank * round, 'a'));
      if (!texts) return std::unexpected(texts.error());
      if (texts->size() != (rank == 0 ? 5U : 0U)) return schema::fail(schema::ErrorCode::internal, "texts");
      for (std::size_t i = 0; i < texts->size(); ++i) {
        if ((*texts)[i] != std::string(i * round, 'a'))
          return schema::fail(schema::ErrorCode::internal, "wrong text");
      }
      if (ok = collective.barrier({"a barrier"}); !ok) return ok;
    }
    return {};
  });
  if (!run.result) FAIL(run.result.error().describe());
  CHECK(run.abandoned == 0);
}

TEST_CASE("a rank that stalls ends the others at the deadline, named with the operation and the cause") {
  const auto stall = std::make_shared<Stall>();
  const auto run = run_in_threads(
      4,
      [stall](Collective& collective) -> schema::Result<void> {
        if (auto all = gathered(collective, 1, {"the first round"}); !all)
          return std::unexpected(all.error());
        if (collective.rank() == 2) {
          stall->wait();
          return {};
        }
        const int mine = 2;
        const Wait wait{"pass 1 of rows 0 to 7", 50ms};
        const auto begun =
            collective.begin(Collective::Gathering::at_all, wait, std::as_bytes(std::span(&mine, 1)));
        if (!begun) return std::unexpected(begun.error());
        // A rank that is late here has not stalled: the deadline begins when three ranks have sent their
        // parts.
        ++stall->begun;
        while (stall->begun < 3) std::this_thread::yield();
        std::vector<int> all(collective.size());
        auto done = collective.finish(*begun, wait, std::as_writable_bytes(std::span(all)));
        ++stall->ended;
        return done;
      },
      100ms);
  REQUIRE_FALSE(run.result);
  CHECK(run.result.error().code == schema::ErrorCode::deadline_exceeded);
  check_names(run.result.error(), {"rank 2 of 4", "all_gather", "pass 1 of rows 0 to 7", "0.05 s"});
  CHECK(run.abandoned >= 1);
  stall->release(4);
}

TEST_CASE("a rank that fails or throws ends the others at once with its own cause") {
  for (const bool throws : {false, true}) {
    const auto run = run_in_threads(3, [throws](Collective& collective) -> schema::Result<void> {
      if (collective.rank() == 1) {
        if (throws) throw std::runtime_error("the disk is gone");
        return schema::fail(schema::ErrorCode::io, "the disk is gone");
      }
      const auto all = gathered(collective, 2, {"a number", 60'000ms});
      if (all) return schema::fail(schema::ErrorCode::internal, "the dead rank took part");
      check_names(all.error(), {"rank 1 of 3", "the disk is gone"});
      return std::unexpected(all.error());
    });
    REQUIRE_FALSE(run.result);
    CHECK(run.result.error().code == (throws ? schema::ErrorCode::internal : schema::ErrorCode::io));
    check_names(run.result.error(), {"rank 1 of 3", "the disk is gone"});
    CHECK(run.abandoned == 0);
  }
}

TEST_CASE("ranks that make different calls get an error") {
  const auto kinds = run_in_threads(2, [](Collective& collective) -> schema::Result<void> {
    std::uint64_t value = 0;
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    if (collective.rank() == 0) return collective.broadcast({"a"}, bytes);
    const auto all = gathered(collective, 1, {"b"});
    return all ? schema::Result<void>{} : std::unexpected(all.error());
  });
  REQUIRE_FALSE(kinds.result);
  check_names(kinds.result.error(), {"do not make the same calls"});
  const auto sizes = run_in_threads(2, [](Collective& collective) -> schema::Result<void> {
    std::vector<std::byte> mine(3 + collective.rank()), all(8);
    return collective.all_gather({"a"}, mine, all);
  });
  REQUIRE_FALSE(sizes.result);
  check_names(sizes.result.error(), {"do not make the same calls"});
}

TEST_CASE("a wait of a rank ends when the rank itself leaves") {
  auto ranks = make_thread_collectives(2);
  std::jthread waits([&ranks] {
    const auto all = gathered(*ranks[0], 1, {"a number", 60'000ms});
    CHECK_FALSE(all);
  });
  std::this_thread::sleep_for(10ms);
  ranks[0]->leave({schema::ErrorCode::io, "no more", {}, nullptr});
}

TEST_CASE("exchanges run in order, and after the first error none is run") {
  std::vector<int> ran;
  ExchangeThread exchanges;
  CHECK(exchanges.wait(0));
  for (int i = 0; i < 20; ++i) {
    exchanges.submit([&ran, i] {
      ran.push_back(i);
      return schema::Result<void>{};
    });
  }
  CHECK(exchanges.wait(20));
  CHECK(ran.size() == 20);
  CHECK(std::is_sorted(ran.begin(), ran.end()));
  exchanges.submit([] { return schema::Result<void>(schema::fail(schema::ErrorCode::io, "gone")); });
  exchanges.submit([]() -> schema::Result<void> { throw std::runtime_error("never run"); });
  const auto error = exchanges.wait(22);
  REQUIRE_FALSE(error);
  CHECK(error.error().message == "gone");
}
