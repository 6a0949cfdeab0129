#include "daemon/route/haproxy/arrivals.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

using namespace driftgate::route::haproxy;

namespace {

using Time = Arrivals::Time;

const Time kStart = Time{} + std::chrono::hours(1);
const Time kDeadline = kStart + std::chrono::seconds(60);

LogLine numbered(std::uint32_t order) {
  LogLine line;
  line.order = order;
  return line;
}

std::vector<std::uint32_t> orders(const std::vector<LogLine>& lines) {
  std::vector<std::uint32_t> numbers;
  for (const auto& line : lines) numbers.push_back(line.order);
  return numbers;
}

using Orders = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("lines come out in the order of routing, whatever the order in which requests end") {
  Arrivals arrivals(0);
  arrivals.add(numbered(3), kDeadline);
  arrivals.add(numbered(2), kDeadline);
  CHECK(arrivals.take(kStart).empty());
  arrivals.add(numbered(1), kDeadline);
  CHECK(orders(arrivals.take(kStart)) == Orders{1, 2, 3});
  arrivals.add(numbered(4), kDeadline);
  CHECK(orders(arrivals.take(kStart)) == Orders{4});
}

TEST_CASE("a request in flight holds later ones back until its deadline, and counts when it comes after it") {
  Arrivals arrivals(10);
  arrivals.add(numbered(12), kDeadline);
  CHECK(arrivals.take(kDeadline - std::chrono::milliseconds(1)).empty());
  CHECK(orders(arrivals.take(kDeadline)) == Orders{12});
  arrivals.add(numbered(11), kDeadline);
  CHECK(orders(arrivals.take(kDeadline)) == Orders{11});
  arrivals.add(numbered(11), kDeadline);  // once is enough
  CHECK(arrivals.take(kDeadline).empty());
}

TEST_CASE("requests of before are in no order and left out") {
  Arrivals arrivals(10);
  arrivals.add(numbered(9), kDeadline);
  arrivals.add(numbered(10), kDeadline);
  CHECK(arrivals.take(kStart).empty());
  arrivals.add(numbered(11), kDeadline);
  CHECK(orders(arrivals.take(kStart)) == Orders{11});
}

TEST_CASE("several gaps have deadlines of their own") {
  Arrivals arrivals(0);
  arrivals.add(numbered(2), kDeadline);
  arrivals.add(numbered(4), kDeadline + std::chrono::seconds(5));
  CHECK(orders(arrivals.take(kDeadline)) == Orders{2});
  arrivals.add(numbered(3), kDeadline);
  CHECK(orders(arrivals.take(kDeadline)) == Orders{3, 4});
}

TEST_CASE("HAProxy's counter wraps after 32 bits") {
  constexpr auto kLast = std::numeric_limits<std::uint32_t>::max();
  Arrivals arrivals(kLast - 2);
  arrivals.add(numbered(0), kDeadline);
  arrivals.add(numbered(kLast), kDeadline);
  arrivals.add(numbered(1), kDeadline);
  CHECK(arrivals.take(kStart).empty());
  arrivals.add(numbered(kLast - 1), kDeadline);
  CHECK(orders(arrivals.take(kStart)) == Orders{kLast - 1, kLast, 0, 1});
}

TEST_CASE("a jump that no requests in flight explain begins anew") {
  Arrivals arrivals(0);
  arrivals.add(numbered(3), kDeadline);
  const auto far = static_cast<std::uint32_t>(Arrivals::kMaxGap) + 10;
  arrivals.add(numbered(far), kDeadline);
  CHECK(orders(arrivals.take(kStart)) == Orders{far, 3});
  arrivals.add(numbered(far + 1), kDeadline);
  CHECK(orders(arrivals.take(kStart)) == Orders{far + 1});
}

TEST_CASE("numbers that HAProxy has given out are waited for although nothing came after them") {
  Arrivals arrivals(0);
  arrivals.expect(2, kDeadline);
  arrivals.expect(2, kDeadline + std::chrono::seconds(5));
  CHECK(arrivals.take(kDeadline - std::chrono::milliseconds(1)).empty());
  CHECK(arrivals.overdue() == 0);
  arrivals.add(numbered(1), kDeadline);
  CHECK(orders(arrivals.take(kStart)) == Orders{1});
  CHECK(arrivals.take(kDeadline).empty());
  CHECK(arrivals.overdue() == 1);
  arrivals.add(numbered(2), kDeadline);
  CHECK(orders(arrivals.take(kDeadline)) == Orders{2});
  CHECK(arrivals.overdue() == 0);
}
