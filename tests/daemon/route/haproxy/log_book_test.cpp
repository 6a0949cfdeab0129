#include "daemon/route/haproxy/log_book.hpp"

#include <doctest/doctest.h>

#include "tests/daemon/route/sample_route.hpp"

using namespace driftgate::route;
using namespace driftgate::route::haproxy;

namespace {

constexpr std::int64_t kListening = 1'000'000;
constexpr std::uint64_t kNewBoot = 2'000'000;
constexpr std::uint64_t kOldBoot = 500'000;
constexpr const char* kBackend = "driftgate_1";
const LogBook::Time kNow = LogBook::Time{} + std::chrono::hours(1);

struct Book {
  Ledger ledger{"router"};
  LogBook book{ledger, std::chrono::milliseconds(1'000), kListening};

  Book() { book.note_route({sample_route(), false}, kBackend); }
  void add(std::uint64_t boot, std::uint32_t order, const char* tag = "1.1",
           std::uint32_t lasted_us = 1'000) {
    LogLine line;
    line.boot = boot;
    line.backend = kBackend;
    line.order = order;
    line.tag = tag;
    line.routed_us = 10'000'000 + order;
    line.ended_us = line.routed_us + lasted_us;
    line.status = 200;
    line.end = "--";
    book.add(std::move(line), kNow);
  }
  /// All requests reported so far by when they were routed.
  std::vector<std::int64_t> reported() {
    ledger.close_windows({}, 1, kNow);
    std::vector<std::int64_t> times;
    for (const auto& window : ledger.windows(0, 100)) {
      for (const auto& seen : window->observations) times.push_back(seen.routed_us - 10'000'000);
    }
    return times;
  }
  std::uint64_t dropped() {
    ledger.close_windows({{"tiny", ""}}, 1, kNow);
    std::uint64_t sum = 0;
    for (const auto& window : ledger.windows(0, 100)) sum += window->dropped;
    return sum;
  }
};

using Times = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("requests enter telemetry under the model and stage of their route, in the order of routing") {
  Book book;
  book.add(kNewBoot, 2);
  CHECK(book.reported().empty());
  book.add(kNewBoot, 1);
  CHECK(book.reported() == Times{1, 2});
  const auto windows = book.ledger.windows(0, 10);
  REQUIRE_FALSE(windows.empty());
  CHECK(windows.back()->model == "tiny");
  CHECK(windows.back()->stage_key == "p1/canary/1");
}

TEST_CASE("what waits for a lost line is released at the deadline") {
  Book book;
  book.add(kNewBoot, 2);
  book.book.tick(kNow + std::chrono::milliseconds(2'000));
  CHECK(book.reported().empty());
  book.book.tick(kNow + std::chrono::milliseconds(3'001));
  CHECK(book.reported() == Times{2});
}

TEST_CASE("a process that ran before has a past that is not counted") {
  Book book;
  SUBCASE("as far as its counters say") {
    book.book.note_process(kOldBoot, {{kBackend, 5}});
    book.book.note_process(kOldBoot, {{kBackend, 50}});  // only the first look counts
    book.add(kOldBoot, 4);
    book.add(kOldBoot, 6);
    CHECK(book.reported() == Times{6});
  }
  SUBCASE("or up to the first line that comes") {
    book.add(kOldBoot, 9);
    CHECK(book.reported() == Times{9});
  }
}

TEST_CASE("two processes, as after a reload, are counted side by side") {
  Book book;
  book.add(kNewBoot, 1);
  book.add(kNewBoot + 1, 1);
  book.add(kNewBoot, 2);
  CHECK(book.reported() == Times{1, 1, 2});
}

TEST_CASE("requests under a route that nobody here applied belong to the router before this one") {
  Book book;
  book.add(kNewBoot, 1, "1.0");
  book.add(kNewBoot, 2);
  CHECK(book.reported() == Times{2});
}

TEST_CASE("a request that HAProxy has routed and never tells of is lost, unless it still lasts") {
  Book book;
  book.add(kNewBoot, 1);
  Counted counted{.boot = kNewBoot, .backend = kBackend, .model = "tiny", .routed = 4, .in_flight = 3};
  book.book.compare(counted, 0, kNow);
  const auto late = kNow + std::chrono::milliseconds(3'001);
  counted.in_flight = 2;
  SUBCASE("what is beyond those in flight at two looks") {
    book.book.compare(counted, 0, late);
    CHECK(book.dropped() == 0);
    book.book.compare(counted, 0, late);
    CHECK(book.dropped() == 1);
    book.book.compare(counted, 0, late);
    CHECK(book.dropped() == 1);
  }
  SUBCASE("a line that was on its way") {
    book.book.compare(counted, 0, late);
    book.add(kNewBoot, 2);
    book.book.compare(counted, 0, late);
    book.book.compare(counted, 0, late);
    CHECK(book.dropped() == 0);
    CHECK(book.reported() == Times{1, 2});
  }
  SUBCASE("as many as datagrams were dropped, however many are in flight") {
    counted.in_flight = 100;
    book.book.compare(counted, 2, late);
    CHECK(book.dropped() == 2);
  }
  SUBCASE("no datagram is missed that was no request's") {
    for (std::uint32_t order = 2; order <= 4; ++order) book.add(kNewBoot, order);
    book.book.compare(counted, 7, late);
    CHECK(book.dropped() == 0);
  }
}

TEST_CASE("a silent log is noticed: HAProxy routes requests and tells of none") {
  Book book;
  Counted counted{.boot = kNewBoot, .backend = kBackend, .model = "tiny", .routed = {}, .in_flight = 0};
  book.book.compare(counted, 0, kNow);
  counted.routed = 5;
  book.book.compare(counted, 0, kNow);
  CHECK(book.dropped() == 0);
  for (int look = 0; look < 2; ++look) book.book.compare(counted, 0, kNow + std::chrono::milliseconds(3'001));
  CHECK(book.dropped() == 5);
}
