#include "daemon/route/table/route_table.hpp"

#include <doctest/doctest.h>

#include "tests/daemon/route/sample_route.hpp"

using namespace driftgate::route;
using driftgate::schema::ErrorCode;

namespace {

constexpr std::chrono::milliseconds kLease{1'000};
const RouteTable::Time kStart{std::chrono::hours(1)};

ModelRoute at(std::uint64_t epoch, std::uint64_t revision, std::uint32_t share) {
  auto route = sample_route();
  route.epoch = epoch;
  route.revision = revision;
  route.candidate_bp = share;
  return route;
}

}  // namespace

TEST_CASE("an older epoch or revision is refused, a repeat is fine") {
  EngineBook book(HealthLimits{});
  RouteTable table(kLease, book);
  REQUIRE(table.apply(at(2, 5, 100), kStart));
  CHECK(table.apply(at(2, 5, 100), kStart));
  for (const auto& stale : {at(1, 9, 100), at(2, 4, 100), at(2, 5, 200)}) {
    const auto refused = table.apply(stale, kStart);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::conflict);
    CHECK(table.find("tiny")->candidate_bp == 100);
  }
  CHECK(table.apply(at(2, 6, 200), kStart));
  CHECK(table.apply(at(3, 1, 300), kStart));
  CHECK(table.find("tiny")->candidate_bp == 300);
}

TEST_CASE("without a heartbeat the candidate's share is 0 until the next apply") {
  EngineBook book(HealthLimits{});
  RouteTable table(kLease, book);
  REQUIRE(table.apply(at(1, 1, 5'000), kStart));
  CHECK(table.end_expired_leases(kStart + kLease - std::chrono::milliseconds(1)).empty());
  table.heartbeat(kStart + std::chrono::milliseconds(500));
  CHECK(table.end_expired_leases(kStart + kLease).empty());
  CHECK(table.end_expired_leases(kStart + kLease * 2) == std::vector<std::string>{"tiny"});
  CHECK(table.end_expired_leases(kStart + kLease * 3).empty());
  table.heartbeat(kStart + kLease * 3);
  auto observed = table.observe();
  REQUIRE(observed.size() == 1);
  CHECK(observed[0].reverted);
  CHECK(observed[0].route.candidate_bp == 0);
  CHECK(table.held()[0].candidate_bp == 5'000);
  REQUIRE(table.apply(at(1, 1, 5'000), kStart + kLease * 3));
  observed = table.observe();
  CHECK_FALSE(observed[0].reverted);
  CHECK(observed[0].route.candidate_bp == 5'000);
}

TEST_CASE("a route without exposure is left alone when the lease expires") {
  EngineBook book(HealthLimits{});
  RouteTable table(kLease, book);
  REQUIRE(table.apply(at(1, 1, 0), kStart));
  CHECK(table.end_expired_leases(kStart + kLease * 9).empty());
  CHECK_FALSE(table.observe()[0].reverted);
}

TEST_CASE("restored routes serve the incumbent and keep their epoch") {
  EngineBook book(HealthLimits{});
  RouteTable table(kLease, book);
  table.restore({at(7, 3, 2'500)}, kStart);
  CHECK(table.find("tiny")->candidate_bp == 0);
  CHECK(table.observe()[0].reverted);
  CHECK_FALSE(table.apply(at(6, 9, 100), kStart));
  CHECK(table.apply(at(7, 3, 2'500), kStart));
  CHECK(table.find("tiny")->candidate_bp == 2'500);
}

TEST_CASE("a route has the engines of its arms, each for as long as a route or a request has it") {
  EngineBook book(HealthLimits{});
  RouteTable table(kLease, book);
  REQUIRE(table.apply(at(1, 1, 100), kStart));
  const auto first = table.find("tiny");
  CHECK(first->engine(Served::incumbent)->url() == sample_route().incumbent.url);
  CHECK(first->engine(Served::candidate)->url() == sample_route().candidate->url);
  CHECK(book.engines().size() == 3);
  auto route = at(1, 2, 0);
  route.candidate.reset();
  route.fallback.reset();
  REQUIRE(table.apply(route, kStart));
  const auto second = table.find("tiny");
  CHECK(second->engine(Served::candidate) == nullptr);
  CHECK(second->engine(Served::incumbent) == first->engine(Served::incumbent));  // what it learned is kept
  CHECK(book.engines().size() == 3);
}

TEST_CASE("routes that contradict themselves are refused") {
  const auto refused = [](auto change) {
    auto route = sample_route();
    change(route);
    return !validate_route(route);
  };
  CHECK_FALSE(refused([](ModelRoute&) {}));
  CHECK(refused([](ModelRoute& r) { r.model.clear(); }));
  CHECK(refused([](ModelRoute& r) { r.candidate_bp = 10'001; }));
  CHECK(refused([](ModelRoute& r) { r.candidate.reset(), r.candidate_bp = 1; }));
  CHECK_FALSE(refused([](ModelRoute& r) { r.candidate.reset(), r.candidate_bp = 0, r.mirror_bp = 1; }));
  CHECK(refused([](ModelRoute& r) { r.stage_key.clear(), r.mirror_bp = 1; }));
  CHECK(refused([](ModelRoute& r) { r.fallback.reset(), r.all_to_fallback = true; }));
  CHECK(refused([](ModelRoute& r) { r.incumbent.url = "ftp://127.0.0.1:1"; }));
  CHECK(refused([](ModelRoute& r) { r.incumbent.url = "http://127.0.0.1:1/v1/"; }));
  CHECK_FALSE(refused([](ModelRoute& r) { r.incumbent.url = "https://127.0.0.1:1/team/llama"; }));
  CHECK(refused([](ModelRoute& r) { r.pins = {{"a", "fallback"}}; }));
  CHECK(refused([](ModelRoute& r) { r.slices = {{{}, 1, false}}; }));
  CHECK(refused([](ModelRoute& r) { r.slices = {{{{"a", "b"}}, 10'001, false}}; }));
}

TEST_CASE("a stage key can never name a file elsewhere") {
  for (const char* key : {"p1/canary/1", "a", "a.b/c-d_e:f"}) CHECK(valid_stage_key(key));
  for (const char* key : {"", "..", "a/../b", "./a", "/.a", "a b", "a\\b", "a\n", "\xc3\xa4"})
    CHECK_FALSE(valid_stage_key(key));
  CHECK_FALSE(valid_stage_key(std::string(kMaxNameBytes + 1, 'a')));
}

TEST_CASE("the lease holds from one sign of life to the next") {
  EngineBook book(HealthLimits{});
  RouteTable table(kLease, book);
  table.restore({}, kStart);
  CHECK(table.lease_holds(kStart));
  CHECK_FALSE(table.lease_holds(kStart + kLease));
  table.heartbeat(kStart + kLease);
  CHECK(table.lease_holds(kStart + kLease * 3 / 2));
  REQUIRE(table.apply(at(1, 1, 0), kStart + kLease * 3));
  CHECK(table.lease_holds(kStart + kLease * 3));
}
