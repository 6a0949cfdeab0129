#include "daemon/notify/outbox.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "daemon/store/outbox.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::notify;
using store::testing::must;

namespace {

schema::EntryDraft state_entry(const std::string& from, const std::string& to) {
  schema::EntryDraft entry;
  entry.time_us = 1'700'000'000'000'042;
  entry.kind = schema::EvidenceKind::state_changed;
  entry.actor = "driftgate";
  entry.subject.model = "m";
  entry.subject.promotion = "pr-1";
  entry.body = {{"from", from}, {"to", to}, {"stage", "canary"}, {"reason", "why"}};
  return entry;
}

std::string bytes_of(const schema::EntryDraft& entry, std::int64_t seq = 3) {
  return must(schema::encode_entry(seq, entry));
}

struct Fixture {
  store::testing::TempDir dir;
  std::unique_ptr<store::Store> store = store::testing::open_store(dir.path());

  void put(const Outbox& outbox, const std::string& entry, std::int64_t now = 5) {
    store::testing::write(*store, [&](store::Tx& tx) { return outbox.put(tx, entry, now); });
  }
  std::vector<store::OutboxRow> due(const std::string& endpoint, std::int64_t now = 1'000) {
    return store::testing::read(
        *store, [&](store::Reader& reader) { return store::due_outbox(reader, endpoint, now, 20'000); });
  }
};

}  // namespace

TEST_CASE(
    "people are told of ends, of what waits for them, of holds, blocks, alarms and ordered notices, of no "
    "more") {
  CHECK(event_type(state_entry("running", "rejected")) == "promotion.rejected");
  CHECK(event_type(state_entry("running", "awaiting_approval")) == "promotion.awaiting_approval");
  CHECK(event_type(state_entry("finalizing", "succeeded")) == "promotion.succeeded");
  CHECK(event_type(state_entry("running", "inconclusive")) == "promotion.inconclusive");
  CHECK_FALSE(event_type(state_entry("queued", "running")));
  CHECK_FALSE(event_type(state_entry("succeeded", "succeeded")));
  auto entry = state_entry("", "");
  entry.kind = schema::EvidenceKind::hold_set;
  CHECK(event_type(entry) == "model.held");
  entry.kind = schema::EvidenceKind::block_set;
  CHECK(event_type(entry) == "version.blocked");
  entry.kind = schema::EvidenceKind::escalation_decided;
  CHECK_FALSE(event_type(entry));
  entry.body["notify"] = true;
  CHECK(event_type(entry) == "escalation.notify");
  entry.kind = schema::EvidenceKind::guard_alarmed;
  CHECK(event_type(entry) == "guard.alarm");
  entry.body["notify"] = false;
  CHECK_FALSE(event_type(entry));
  entry.kind = schema::EvidenceKind::route_desired;
  CHECK_FALSE(event_type(entry));
}

TEST_CASE("a payload is JSON with the entry as it is in the log") {
  const auto entry = bytes_of(state_entry("running", "rejected"));
  const auto payload = nlohmann::json::parse(payload_of("promotion.rejected", 1'700'000'000'000'042, entry));
  CHECK(payload["type"] == "promotion.rejected");
  CHECK(payload["timestamp"] == "2023-11-14T22:13:20.000042Z");
  CHECK(payload["data"] == nlohmann::json::parse(entry));
}

TEST_CASE_FIXTURE(Fixture, "each subscriber gets the events that it asked for, once, under one id") {
  const Outbox outbox(std::vector<Subscriber>{{"all", {}}, {"ends", {"promotion.rejected"}}, {"models", {"model.*"}}});
  const auto entry = bytes_of(state_entry("running", "rejected"));
  put(outbox, entry);
  put(outbox, entry);
  put(outbox, bytes_of(state_entry("queued", "running"), 4));
  REQUIRE(due("all").size() == 1);
  REQUIRE(due("ends").size() == 1);
  CHECK(due("models").empty());
  CHECK(due("all")[0].message == message_id(entry));
  CHECK(due("all")[0].message == due("ends")[0].message);
  CHECK(message_id(bytes_of(state_entry("running", "rejected"), 9)) != message_id(entry));
}

TEST_CASE_FIXTURE(Fixture, "a transaction that is undone leaves no message") {
  const Outbox outbox(std::vector<Subscriber>{{"all", {}}});
  const auto done = store->write("undone", [&](store::Tx& tx) -> schema::Result<void> {
    must(outbox.put(tx, bytes_of(state_entry("running", "rejected")), 5));
    return schema::fail(schema::ErrorCode::conflict, "undone");
  });
  CHECK_FALSE(done);
  CHECK(due("all").empty());
}

TEST_CASE_FIXTURE(Fixture,
                  "an endpoint that is disabled gets nothing until it is enabled or has another URL") {
  const Outbox outbox(std::vector<Subscriber>{{"all", {}}});
  const auto change = [&](auto function) { store::testing::write(*store, function); };
  change([](store::Tx& tx) { return store::ensure_webhook(tx, "all", "http://a/"); });
  change([](store::Tx& tx) { return store::disable_webhook(tx, "all", 9, "gone"); });
  put(outbox, bytes_of(state_entry("running", "rejected"), 1));
  CHECK(due("all").empty());
  change([](store::Tx& tx) { return store::ensure_webhook(tx, "all", "http://a/"); });
  put(outbox, bytes_of(state_entry("running", "rejected"), 2));
  CHECK(due("all").empty());
  SUBCASE("enabled") {
    change([](store::Tx& tx) { return store::enable_webhook(tx, "all"); });
  }
  SUBCASE("another URL") {
    change([](store::Tx& tx) { return store::ensure_webhook(tx, "all", "http://b/"); });
  }
  put(outbox, bytes_of(state_entry("running", "rejected"), 3));
  CHECK(due("all").size() == 1);
}

TEST_CASE_FIXTURE(Fixture,
                  "beyond its limit the oldest waiting messages of an endpoint are dropped, no other's") {
  const Outbox outbox(std::vector<Subscriber>{{"all", {}}});
  for (const char* endpoint : {"all", "other"}) {
    store::testing::write(*store, [&](store::Tx& tx) -> schema::Result<void> {
      for (std::int64_t i = 0; i < kMaxPending; ++i)
        must(store::put_outbox(tx, {.endpoint = endpoint, .message = std::to_string(i), .type = "t"}));
      return {};
    });
  }
  put(outbox, bytes_of(state_entry("running", "rejected")));
  const auto waiting = due("all");
  REQUIRE(waiting.size() == kMaxPending);
  CHECK(waiting.front().message == "1");
  CHECK(due("other").size() == kMaxPending);
  const auto counts =
      store::testing::read(*store, [](store::Reader& reader) { return store::count_outbox(reader, "all"); });
  CHECK(counts.dropped == 1);
  CHECK(counts.last_error == "the outbox was full");
}

TEST_CASE("patterns of events that fit nothing are known as such") {
  for (const char* good : {"promotion.rejected", "promotion.*", "model.held", "escalation.*", "schedule.*",
                           "schedule.report", "schedule.skipped"})
    CHECK(known_pattern(good));
  for (const char* bad : {"promotion", "promotion.rejcted", "*", "modle.*", ""})
    CHECK_FALSE(known_pattern(bad));
}
