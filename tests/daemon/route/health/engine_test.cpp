#include "daemon/route/health/engine.hpp"

#include <doctest/doctest.h>

using namespace driftgate::route;

namespace {

using std::chrono::milliseconds;
constexpr const char* kUrl = "http://127.0.0.1:8001";
const Engine::Time kStart{std::chrono::hours(1)};

HealthLimits limits() {
  HealthLimits limits;
  limits.total_ms = 60'000;
  limits.first_byte_floor_ms = 100;
  return limits;
}

void answer(Engine& engine, int count, int ms, bool streamed = true) {
  for (int i = 0; i < count; ++i) engine.answered(streamed, milliseconds(ms), kStart);
}

}  // namespace

TEST_CASE("an engine is the same for all routes that name it, and goes with the last of them") {
  EngineBook book(limits());
  auto first = book.get(kUrl);
  REQUIRE(first != nullptr);
  CHECK(book.get(kUrl) == first);
  CHECK(first->endpoint().authority == "127.0.0.1:8001");
  CHECK(book.get("ftp://127.0.0.1:8001") == nullptr);
  CHECK(book.engines().size() == 1);
  first.reset();
  CHECK(book.engines().empty());
}

TEST_CASE("an engine that asks for something else than before is another one, under the same URL") {
  EngineBook book(limits());
  const auto plain = book.get(kUrl);
  CHECK(plain->endpoint().pass == nullptr);
  book.set_access(kUrl, {.key_file = "/nowhere/key"});
  const auto keyed = book.get(kUrl);
  REQUIRE(keyed != nullptr);
  CHECK(keyed != plain);
  CHECK(book.get(kUrl) == keyed);
  CHECK(keyed->endpoint().has_key());
  CHECK_FALSE(plain->endpoint().has_key());
  CHECK(book.engines().size() == 1);
  book.keep_access({"http://127.0.0.1:8002"});
  CHECK(book.access().empty());
  CHECK_FALSE(book.get(kUrl)->endpoint().has_key());
}

TEST_CASE("the limit of the first byte is learned for streams and for whole answers apart") {
  EngineBook book(limits());
  const auto engine = book.get(kUrl);
  CHECK(engine->first_byte_ms(true) == 0);
  answer(*engine, 64, 50);
  CHECK(engine->first_byte_ms(true) >= 200);
  CHECK(engine->first_byte_ms(true) <= 210);
  CHECK(engine->first_byte_ms(false) == 0);
  answer(*engine, 64, 2'000, false);
  CHECK(engine->first_byte_ms(false) >= 4'100);
  CHECK(engine->first_byte_ms(false) <= 4'500);
  CHECK(engine->first_byte_ms(true) <= 210);
  answer(*engine, 64, 59'000, false);
  CHECK(engine->first_byte_ms(false) == 0);  // the request's own limit is shorter
}

TEST_CASE("a stated limit stands for what would be learned of streams, and only of these") {
  auto stated = limits();
  stated.first_byte_ms = 750;
  EngineBook book(stated);
  const auto engine = book.get(kUrl);
  CHECK(engine->first_byte_ms(true) == 750);
  answer(*engine, 64, 10);
  answer(*engine, 64, 10, false);
  CHECK(engine->first_byte_ms(true) == 750);
  CHECK(engine->first_byte_ms(false) < 200);
}

TEST_CASE("answers that were given up count as slow once the engine answers, and not at all when it hung") {
  EngineBook book(limits());
  const auto slow = book.get(kUrl);
  const auto hung = book.get("http://127.0.0.1:8002");
  for (const auto& engine : {slow, hung}) answer(*engine, 64, 50);
  const auto before = slow->first_byte_ms(true);
  for (int i = 0; i < 30; ++i) {
    slow->missed(true, true, kStart);
    slow->answered(true, milliseconds(50), kStart);
  }
  answer(*slow, 16, 50);
  CHECK(slow->first_byte_ms(true) > before + before / 2);
  for (int i = 0; i < 3; ++i) hung->missed(true, true, kStart);
  REQUIRE(hung->state() == BreakerState::open);
  answer(*hung, 32, 50);
  CHECK(hung->first_byte_ms(true) == before);
}

TEST_CASE("a breaker withholds requests, lets one try, and tells each opening and closing once") {
  EngineBook book(limits());
  const auto engine = book.get(kUrl);
  CHECK(engine->enter(kStart) == Engine::Entry::go);
  engine->failed("connect", kStart);
  engine->failed("connect", kStart);
  CHECK(engine->is_troubled());
  CHECK(book.openings() == 0);
  engine->missed(true, true, kStart);
  CHECK(book.openings() == 1);
  CHECK(engine->enter(kStart) == Engine::Entry::withheld);
  engine->probed(true, "", kStart + milliseconds(600));
  CHECK(engine->state() == BreakerState::half_open);
  CHECK(engine->enter(kStart + milliseconds(601)) == Engine::Entry::trial);
  CHECK(engine->enter(kStart + milliseconds(602)) == Engine::Entry::withheld);
  engine->gave_up();
  CHECK(engine->enter(kStart + milliseconds(603)) == Engine::Entry::trial);
  engine->answered(true, milliseconds(5), kStart + milliseconds(700));
  CHECK(engine->enter(kStart + milliseconds(701)) == Engine::Entry::go);
  CHECK_FALSE(engine->is_troubled());
  const auto report = book.report("r", 0, kStart + milliseconds(800));
  REQUIRE(report.events.size() == 2);
  CHECK(report.events[0].opened);
  CHECK(report.events[0].url == kUrl);
  CHECK(report.events[0].reason == "first_byte");
  CHECK(report.events[0].failures == 3);
  CHECK(report.events[0].first_failure_us > 0);
  CHECK_FALSE(report.events[1].opened);
  CHECK(report.events[1].number == 2);
  CHECK(report.events[1].open_ms == 700);
  CHECK(book.report("r", 1, kStart).events.size() == 1);
}

TEST_CASE("an answer of any kind is a sign of life, and the status says how an engine is") {
  EngineBook book(limits());
  const auto engine = book.get(kUrl);
  engine->probed(false, "probe_timeout", kStart);
  engine->failed("no_answer", kStart);
  auto status = book.report("r", 0, kStart).engines.at(0);
  CHECK(status.failures == 2);
  CHECK(status.reason == "no_answer");
  CHECK(status.first_failure_us > 0);
  CHECK(status.open_ms == 0);
  engine->refused(kStart);
  status = book.report("r", 0, kStart).engines.at(0);
  CHECK(status.failures == 0);
  CHECK(status.reason.empty());
  CHECK(status.first_failure_us == 0);
  for (int i = 0; i < 3; ++i) engine->failed("connect", kStart);
  status = book.report("r", 0, kStart + milliseconds(250)).engines.at(0);
  CHECK(status.state == BreakerState::open);
  CHECK(status.open_ms == 250);
}

TEST_CASE("the newest events are kept when nobody reads them") {
  EngineBook book(limits());
  for (std::size_t i = 0; i < EngineBook::kMaxEvents + 10; ++i) book.record({});
  const auto report = book.report("r", 0, kStart);
  CHECK(report.events.size() == EngineBook::kMaxEvents);
  CHECK(report.events.front().number == 11);
  CHECK(report.events.back().number == EngineBook::kMaxEvents + 10);
}
