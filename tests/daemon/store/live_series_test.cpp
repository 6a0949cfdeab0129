#include "daemon/store/promotions/live_series.hpp"

#include <doctest/doctest.h>

#include <string>

#include "daemon/store/promotions/redactions.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "tests/daemon/store/rows.hpp"

using namespace driftgate;
using namespace driftgate::store;
using namespace driftgate::store::testing;

namespace {

const StageKey kRun{"pr-1", "canary", 1};

struct Fixture : StoreFixture {
  Fixture() {
    insert_world(*store);
    write(*store, [](Tx& tx) -> Result<void> {
      must(insert_promotion(tx, promotion_row("pr-1")));
      return insert_stage_run(tx, {.key = kRun, .started_us = 10});
    });
  }

  /// Points with one request of each arm, of which every tenth of the candidate fails.
  void add(std::int64_t from, std::int64_t to, const std::string& clauses = "[]") {
    write(*store, [&](Tx& tx) -> Result<void> {
      for (std::int64_t i = from; i < to; ++i) {
        TRY(add_live_point(tx, kRun,
                           {.time_us = 100 + i,
                            .counts = {1, 1, i % 10 == 0 ? 1 : 0, 0},
                            .clauses = clauses,
                            .body = std::to_string(i)}));
      }
      return {};
    });
  }
  LiveSeries series(const StageKey& run = kRun) {
    return read(*store, [&](Reader& reader) { return find_live_series(reader, run); });
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "points read back in their order with the counts since the run began") {
  CHECK(series().points.empty());
  add(0, 3);
  const auto found = series();
  REQUIRE(found.points.size() == 3);
  CHECK(found.stride == 1);
  CHECK(found.points[2].number == 2);
  CHECK(found.points[2].time_us == 102);
  CHECK(found.points[2].body == "2");
  CHECK(found.points[2].counts == LiveCounts{3, 3, 1, 0});
  const auto newest = read(*store, [](Reader& reader) { return find_live_series(reader, kRun, 2); });
  REQUIRE(newest.points.size() == 2);
  CHECK(newest.points[0] == found.points[1]);
  CHECK(newest.points[1] == found.points[2]);
  CHECK(series({"pr-1", "canary", 2}).points.empty());
  CHECK(series({"pr-1", "shadow-runtime", 1}).points.empty());
}

TEST_CASE_FIXTURE(Fixture, "a long run keeps a bounded number of points, evenly, and always the newest") {
  for (std::int64_t i = 0; i < 20'000; i += 500) {
    add(i, i + 500);
    const auto found = series();
    CHECK(static_cast<std::int64_t>(found.points.size()) <= kMaxLivePoints + 1);
    CHECK(static_cast<std::int64_t>(found.points.size()) >= std::min<std::int64_t>(i + 500, kMaxLivePoints / 2));
    CHECK(found.points.back().number == i + 499);
    CHECK(found.points.back().counts.requests_candidate == i + 500);
    CHECK(found.points.back().counts.failures_candidate == (i + 500) / 10);
  }
  const auto found = series();
  CHECK(found.stride == 64);
  for (std::size_t i = 0; i + 1 < found.points.size(); ++i) {
    CHECK(found.points[i].number == static_cast<std::int64_t>(i) * found.stride);
    CHECK(found.points[i].counts.requests_incumbent == found.points[i].number + 1);
  }
}

TEST_CASE_FIXTURE(Fixture, "a list of tests is kept once, and no longer than a point names it") {
  add(0, 1, R"(["first"])");
  add(1, 100, R"(["second"])");
  add(100, 101, R"(["first"])");
  auto found = series();
  REQUIRE(found.clauses.size() == 2);
  CHECK(found.clauses[0].list == R"(["first"])");
  CHECK(found.clauses[1].list == R"(["second"])");
  CHECK(found.points[0].clauses == found.clauses[0].key);
  CHECK(found.points[1].clauses == found.clauses[1].key);
  CHECK(found.points[100].clauses == found.clauses[0].key);

  add(101, 102, R"(["once"])");
  CHECK(series().clauses.size() == 3);
  add(102, kMaxLivePoints + 1, "");
  found = series();
  REQUIRE(found.stride == 2);
  REQUIRE(found.clauses.size() == 2);  // the point that named the third was dropped
  CHECK(found.points.back().clauses.empty());
}

TEST_CASE_FIXTURE(Fixture, "a point belongs to a run that was begun") {
  const auto refused = store->write("test", [](Tx& tx) {
    return add_live_point(tx, {"pr-1", "canary", 7}, {.time_us = 1, .body = "{}"});
  });
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::not_found);
}

TEST_CASE_FIXTURE(Fixture, "a deleted series leaves nothing, and those of other promotions stay") {
  const StageKey other{"pr-2", "canary", 1};
  write(*store, [&](Tx& tx) -> Result<void> {
    must(insert_promotion(tx, promotion_row("pr-2")));
    TRY(insert_stage_run(tx, {.key = other, .started_us = 10}));
    return add_live_point(tx, other, {.time_us = 1, .clauses = "[]", .body = "0"});
  });
  add(0, 3);
  const auto rows = [&] {
    constexpr Sql kCount{"count live rows",
                         "SELECT (SELECT count(*) FROM live_runs) + (SELECT count(*) FROM live_points) + "
                         "(SELECT count(*) FROM live_clauses)"};
    return read(*store, [&](Reader& reader) { return find_row<std::int64_t>(reader, kCount, {}); }).value();
  };
  CHECK(rows() == 1 + 3 + 1 + 3);
  CHECK(write(*store, [](Tx& tx) { return delete_live_series(tx, "pr-1"); }) == 3);
  CHECK(rows() == 3);
  CHECK(series().points.empty());
  CHECK(series(other).points.size() == 1);
  CHECK(write(*store, [](Tx& tx) { return delete_live_series(tx, "pr-1"); }) == 0);
}
