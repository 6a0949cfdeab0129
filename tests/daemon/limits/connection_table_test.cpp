#include "daemon/limits/connection_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "daemon/limits/body_room.hpp"

using namespace driftgate::limits;

namespace {

/// Connections by name; those that were told to give way are noted in order.
class Bench {
 public:
  explicit Bench(ConnectionTable::Limits limits) : table(limits) {}

  ConnectionTable table;
  std::vector<std::string> closed;

  std::unique_ptr<ConnectionTable::Place> connect(const std::string& address, const std::string& name,
                                                  Use use = Use::waiting) {
    auto place = table.admit(Source::of(address));
    if (!place) return nullptr;
    place->begin([this, name] { closed.push_back(name); });
    place->use(use);
    return place;
  }
};

using Places = std::vector<std::unique_ptr<ConnectionTable::Place>>;

}  // namespace

TEST_CASE("at the bound of one client its own oldest waiting connection gives way") {
  Bench bench({.connections = 100, .connections_per_source = 2, .body_bytes = 100});
  Places places;
  places.push_back(bench.connect("192.0.2.1", "first"));
  places.push_back(bench.connect("192.0.2.1", "second"));
  places.push_back(bench.connect("192.0.2.9", "other"));
  places.push_back(bench.connect("192.0.2.1", "third"));
  CHECK(bench.closed == std::vector<std::string>{"first"});
  CHECK(places[0]->evicted());
  CHECK_FALSE(places[1]->evicted());
  CHECK(bench.table.figures().open == 3);
}

TEST_CASE("the addresses of one IPv6 network share a bound") {
  Bench bench({.connections = 100, .connections_per_source = 1, .body_bytes = 100});
  const auto first = bench.connect("2001:db8::1", "first");
  const auto second = bench.connect("2001:db8::2", "second");
  CHECK(bench.closed == std::vector<std::string>{"first"});
}

TEST_CASE("at the bound of all the client that has most to give loses its oldest") {
  Bench bench({.connections = 4, .connections_per_source = 4, .body_bytes = 100});
  Places places;
  places.push_back(bench.connect("192.0.2.2", "quiet"));
  for (int i = 0; i < 3; ++i) places.push_back(bench.connect("192.0.2.1", "many " + std::to_string(i)));
  places.push_back(bench.connect("192.0.2.3", "new"));
  places.push_back(bench.connect("192.0.2.4", "newer"));
  CHECK(bench.closed == std::vector<std::string>{"many 0", "many 1"});
}

TEST_CASE("among clients that hold as much, the one that has been quiet for longest gives way") {
  Bench bench({.connections = 3, .connections_per_source = 4, .body_bytes = 100});
  Places places;
  for (int i = 1; i <= 3; ++i)
    places.push_back(bench.connect("192.0.2." + std::to_string(i), std::to_string(i)));
  places[0]->use(Use::active);
  places[0]->use(Use::waiting);
  places.push_back(bench.connect("192.0.2.4", "4"));
  places.push_back(bench.connect("192.0.2.5", "5"));
  CHECK(bench.closed == std::vector<std::string>{"2", "3"});
}

TEST_CASE("waiting connections give way before unfinished bodies, those before stalled ones") {
  Bench bench({.connections = 100, .connections_per_source = 4, .body_bytes = 100});
  Places places;
  places.push_back(bench.connect("192.0.2.1", "stalled", Use::stalled));
  places.push_back(bench.connect("192.0.2.1", "body", Use::body));
  places.push_back(bench.connect("192.0.2.1", "waiting"));
  places.push_back(bench.connect("192.0.2.1", "active", Use::active));
  Places more;
  for (int i = 0; i < 3; ++i) more.push_back(bench.connect("192.0.2.1", "more", Use::active));
  CHECK(bench.closed == std::vector<std::string>{"waiting", "body", "stalled"});
}

TEST_CASE("a request in progress never gives way: a connection for which nothing can be closed is refused") {
  Bench bench({.connections = 2, .connections_per_source = 2, .body_bytes = 100});
  const auto one = bench.connect("192.0.2.1", "one", Use::active);
  const auto two = bench.connect("192.0.2.1", "two", Use::active);
  CHECK(bench.connect("192.0.2.1", "own bound") == nullptr);
  CHECK(bench.connect("192.0.2.2", "bound of all") == nullptr);
  CHECK_FALSE(bench.table.evict_one());
  CHECK(bench.closed.empty());
  CHECK(bench.table.figures().refused == 2);
  two->use(Use::waiting);
  CHECK(bench.connect("192.0.2.2", "now") != nullptr);
  CHECK(bench.closed == std::vector<std::string>{"two"});
}

TEST_CASE("ten thousand idle connections leave room for a client that comes then, and for its second request") {
  for (const int addresses : {1, 100, 10'000}) {
    CAPTURE(addresses);
    Bench bench({.connections = 1'024, .connections_per_source = 256, .body_bytes = 100});
    Places flood;
    const auto connect_all = [&] {
      for (int i = 0; i < 10'000; ++i) {
        const int n = i % addresses;
        flood.push_back(
            bench.connect("10.0." + std::to_string(n / 250) + "." + std::to_string(n % 250), "flood"));
        REQUIRE(flood.back() != nullptr);
      }
    };
    connect_all();
    CHECK(bench.table.figures().open == (addresses == 1 ? 256 : 1'024));
    const auto healthy = bench.connect("192.0.2.1", "healthy");
    REQUIRE(healthy != nullptr);
    for (int i = 0; i < 200; ++i)
      flood.push_back(bench.connect("10.0.0." + std::to_string(i), "flood"));
    CHECK_FALSE(healthy->evicted());
    healthy->use(Use::active);
    for (int i = 0; i < 2'000; ++i)
      flood.push_back(bench.connect("10.0.1." + std::to_string(i % 250), "flood"));
    CHECK_FALSE(healthy->evicted());
  }
}

TEST_CASE("a place that gave way is counted no more, and one that ends takes its memory with it") {
  Bench bench({.connections = 2, .connections_per_source = 2, .body_bytes = 100});
  auto one = bench.connect("192.0.2.1", "one");
  auto two = bench.connect("192.0.2.1", "two", Use::body);
  REQUIRE(two->hold(60));
  CHECK(bench.table.evict_one());
  CHECK(bench.table.figures().open == 1);
  CHECK(bench.table.count() == 2);
  one->use(Use::active);  // its request came before the message did: it is still answered
  CHECK(one->in_use() == Use::active);
  one.reset();
  CHECK(bench.table.figures().open == 1);
  CHECK(bench.table.figures().body_bytes == 60);
  two.reset();
  CHECK(bench.table.figures().open == 0);
  CHECK(bench.table.figures().body_bytes == 0);
  CHECK(bench.table.wait_for_none(std::chrono::steady_clock::now()));
}

TEST_CASE("unfinished bodies share one bound, and the client with most of them loses its oldest") {
  Bench bench({.connections = 100, .connections_per_source = 100, .body_bytes = 1'000});
  Places flood;
  for (int i = 0; i < 10; ++i) {
    flood.push_back(bench.connect("192.0.2.1", "flood " + std::to_string(i), Use::body));
    CHECK(flood.back()->hold(100));
  }
  CHECK_FALSE(flood.back()->hold(200));  // the client itself holds most
  const auto honest = bench.connect("192.0.2.2", "honest", Use::body);
  CHECK(honest->hold(50));
  CHECK(honest->hold(150));
  CHECK(bench.closed == std::vector<std::string>{"flood 0", "flood 1"});
  CHECK(bench.table.figures().body_bytes == 950);
  honest->use(Use::active);
  CHECK(bench.table.figures().body_bytes == 800);
  CHECK(bench.table.figures().refused_bodies == 1);
}

TEST_CASE("a body larger than the bound of all is refused and closes nobody who holds less") {
  Bench bench({.connections = 100, .connections_per_source = 100, .body_bytes = 1'000});
  const auto other = bench.connect("192.0.2.1", "other", Use::body);
  REQUIRE(other->hold(500));
  const auto large = bench.connect("192.0.2.2", "large", Use::body);
  CHECK_FALSE(large->hold(1'001));
  CHECK(bench.closed.empty());
}

TEST_CASE("a body's buffer doubles with what has arrived, up to the length that was announced") {
  Bench bench({.connections = 1, .connections_per_source = 1, .body_bytes = 1'000'000});
  const auto place = bench.connect("192.0.2.1", "one", Use::body);
  std::string buffer;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(make_body_room(*place, buffer, 100'000, 1'000));
    REQUIRE(buffer.capacity() >= buffer.size() + 1'000);
    REQUIRE(buffer.capacity() <= std::max<std::size_t>(2 * (buffer.size() + 1'000), 1'000));
    REQUIRE(buffer.capacity() <= 100'000);
    REQUIRE(bench.table.figures().body_bytes == buffer.capacity());
    buffer.append(1'000, 'x');
  }
  CHECK(buffer == std::string(100'000, 'x'));
}

TEST_CASE("the log is told once in ten seconds, and only when something happened") {
  Bench bench({.connections = 1, .connections_per_source = 1, .body_bytes = 100});
  const auto now = std::chrono::steady_clock::now();
  CHECK_FALSE(bench.table.summary(now).has_value());
  const auto one = bench.connect("192.0.2.1", "one", Use::active);
  CHECK(bench.connect("192.0.2.1", "two") == nullptr);
  const auto summary = bench.table.summary(now);
  REQUIRE(summary.has_value());
  CHECK(summary->find("1 refused") != std::string::npos);
  CHECK(bench.connect("192.0.2.1", "three") == nullptr);
  CHECK_FALSE(bench.table.summary(now + std::chrono::seconds(9)).has_value());
  CHECK(bench.table.summary(now + std::chrono::seconds(10)).has_value());
}

TEST_CASE("places are taken, changed and given back from several threads at once") {
  ConnectionTable table({.connections = 50, .connections_per_source = 20, .body_bytes = 1'000});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&table, t] {
      std::vector<std::unique_ptr<ConnectionTable::Place>> mine(30);
      for (int i = 0; i < 5'000; ++i) {
        auto& place = mine[static_cast<std::size_t>(i * 7 % 30)];
        place = table.admit(Source::of("10.0.0." + std::to_string((i + t) % 9)));
        if (!place) continue;
        place->begin([] {});
        place->use(i % 2 == 0 ? Use::body : Use::active);
        if (i % 2 == 0) static_cast<void>(place->hold(static_cast<std::size_t>(i % 100)));
        if (i % 3 == 0) place->use(Use::waiting);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(table.figures().open == 0);
  CHECK(table.figures().body_bytes == 0);
  CHECK(table.wait_for_none(std::chrono::steady_clock::now()));
}
