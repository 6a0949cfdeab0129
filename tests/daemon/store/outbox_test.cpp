#include "daemon/store/outbox.hpp"

#include <doctest/doctest.h>

#include "schema/utf8.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::store;
using namespace driftgate::store::testing;

namespace {

struct Outbox {
  TempDir dir;
  std::unique_ptr<Store> store = open_store(dir.path());

  void put(const std::string& endpoint, const std::string& message, std::int64_t due_us,
           const std::string& payload = "{}") {
    write(*store, [&](Tx& tx) {
      return put_outbox(tx, {.endpoint = endpoint,
                             .message = message,
                             .type = "promotion.rejected",
                             .payload = payload,
                             .due_us = due_us,
                             .created_us = 1});
    });
  }
  std::vector<OutboxRow> due(const std::string& endpoint, std::int64_t now_us, std::int64_t limit = 100) {
    return read(*store, [&](Reader& reader) { return due_outbox(reader, endpoint, now_us, limit); });
  }
  std::string messages(const std::string& endpoint, std::int64_t now_us, std::int64_t limit = 100) {
    std::string text;
    for (const auto& row : due(endpoint, now_us, limit)) text += row.message;
    return text;
  }
  OutboxCounts counts(const std::string& endpoint) {
    return read(*store, [&](Reader& reader) { return count_outbox(reader, endpoint); });
  }
  Result<void> end(std::int64_t id, OutboxEnd how, const std::string& error = "") {
    return store->write("end", [&](Tx& tx) { return end_outbox(tx, id, how, 50, error); });
  }
};

}  // namespace

TEST_CASE_FIXTURE(Outbox, "messages become due in their order, each endpoint by itself") {
  put("a", "3", 30);
  put("a", "1", 10);
  put("a", "2", 10);
  put("b", "x", 5);
  CHECK(messages("a", 9).empty());
  CHECK(messages("a", 10) == "12");
  CHECK(messages("a", 30) == "123");
  CHECK(messages("a", 30, 2) == "12");
  CHECK(messages("b", 30) == "x");
  const auto next = [&](const char* endpoint) {
    return read(*store, [&](Reader& reader) { return next_outbox(reader, endpoint); });
  };
  CHECK(next("a") == 10);
  CHECK(next("b") == 5);
  CHECK(!next("c"));
}

TEST_CASE_FIXTURE(Outbox,
                  "the same message for the same endpoint is sent once, with the bytes that it had first") {
  const std::string payload("\0\xff{}", 4);
  put("a", "m", 10, payload);
  put("a", "m", 20, "other");
  put("b", "m", 20, "other");
  REQUIRE(due("a", 100).size() == 1);
  CHECK(due("a", 100)[0].payload == payload);
  CHECK(due("a", 100)[0].due_us == 10);
  CHECK(due("b", 100)[0].payload == "other");
  must(end(due("a", 100)[0].id, OutboxEnd::delivered));
  put("a", "m", 30, "again");
  CHECK(messages("a", 100).empty());
}

TEST_CASE_FIXTURE(Outbox, "an attempt that failed is counted and comes again when it is due") {
  put("a", "m", 10);
  const auto id = due("a", 10)[0].id;
  for (std::int64_t attempt = 1; attempt <= 3; ++attempt) {
    write(*store, [&](Tx& tx) {
      return retry_outbox(tx, id, 10 * attempt + 10, "no answer " + std::to_string(attempt));
    });
    CHECK(messages("a", 10 * attempt).empty());
    CHECK(due("a", 10 * attempt + 10)[0].attempts == attempt);
  }
  CHECK(counts("a") == OutboxCounts{.pending = 1, .last_error = "no answer 3"});
  must(end(id, OutboxEnd::failed, "given up"));
  CHECK(counts("a") == OutboxCounts{.failed = 1, .last_error = "given up"});
  CHECK(messages("a", 1'000).empty());
}

TEST_CASE_FIXTURE(Outbox, "a message that has ended is neither tried nor ended again") {
  for (const auto how : {OutboxEnd::delivered, OutboxEnd::failed, OutboxEnd::dropped}) {
    const std::string name(to_string(how));
    CAPTURE(name);
    put(name, "m", 1);
    const auto id = due(name, 1)[0].id;
    must(end(id, how));
    const auto again = end(id, OutboxEnd::delivered);
    REQUIRE(!again);
    CHECK(again.error().code == ErrorCode::not_found);
    CHECK(again.error().message == "outbox message " + std::to_string(id) + " is not pending");
    CHECK(!store->write("retry", [&](Tx& tx) { return retry_outbox(tx, id, 9, ""); }));
  }
  CHECK(counts("delivered") == OutboxCounts{.delivered = 1});
  CHECK(end(99, OutboxEnd::failed).error().code == ErrorCode::not_found);
}

TEST_CASE_FIXTURE(Outbox,
                  "of too many messages the oldest are dropped, of those that ended the newest are kept") {
  for (int i = 0; i < 6; ++i) put("a", std::to_string(i), 100 - i);  // the oldest is due last
  put("b", "x", 1);
  const auto drop = [&](std::int64_t keep) {
    return write(*store, [&](Tx& tx) { return drop_outbox(tx, "a", keep, 60, "too many"); });
  };
  CHECK(drop(10) == 0);
  CHECK(drop(4) == 2);
  CHECK(messages("a", 1'000) == "5432");
  CHECK(counts("a") == OutboxCounts{.pending = 4, .dropped = 2, .last_error = "too many"});
  CHECK(messages("b", 1'000) == "x");
  write(*store, [](Tx& tx) { return prune_outbox(tx, "a", 1); });
  CHECK(counts("a").dropped == 1);
  CHECK(counts("a").pending == 4);
  CHECK(drop(0) == 4);
  write(*store, [](Tx& tx) { return prune_outbox(tx, "a", 0); });
  CHECK(counts("a") == OutboxCounts{});
}

TEST_CASE_FIXTURE(Outbox, "a long error is kept up to 500 bytes, and stays text") {
  const auto kept = [&](const std::string& error) {
    put("a", error.substr(0, 8) + std::to_string(error.size()), 1);
    must(end(due("a", 1)[0].id, OutboxEnd::failed, error));
    return counts("a").last_error;
  };
  CHECK(kept(std::string(500, 'x')) == std::string(500, 'x'));
  CHECK(kept(std::string(501, 'y')) == std::string(500, 'y'));
  CHECK(kept(std::string(499, 'z') + "\u00e9") == std::string(499, 'z'));
  const std::string other = kept("answered \xff\xfe");
  for (std::size_t at = 0; at < other.size(); at += schema::utf8_length(other, at)) {
    REQUIRE(schema::utf8_length(other, at) > 0);
  }
}

TEST_CASE_FIXTURE(Outbox,
                  "an endpoint stays disabled with its reason until it is enabled or gets another URL") {
  const auto found = [&] {
    return read(*store, [](Reader& reader) { return find_webhook(reader, "a"); }).value();
  };
  const auto ensure = [&](const char* url) {
    write(*store, [&](Tx& tx) { return ensure_webhook(tx, "a", url); });
  };
  ensure("http://one");
  CHECK(found() == WebhookRow{"a", "http://one", std::nullopt, ""});
  write(*store, [](Tx& tx) { return disable_webhook(tx, "a", 7, "it answered 410 Gone"); });
  ensure("http://one");
  CHECK(found() == WebhookRow{"a", "http://one", 7, "it answered 410 Gone"});
  ensure("http://two");
  CHECK(found() == WebhookRow{"a", "http://two", std::nullopt, ""});
  write(*store, [](Tx& tx) { return disable_webhook(tx, "a", 8, "again"); });
  write(*store, [](Tx& tx) { return enable_webhook(tx, "a"); });
  CHECK(!found().disabled_us);
  for (const bool enable : {false, true}) {
    const auto unknown = store->write("unknown", [&](Tx& tx) {
      return enable ? enable_webhook(tx, "b") : disable_webhook(tx, "b", 1, "");
    });
    REQUIRE(!unknown);
    CHECK(unknown.error().code == ErrorCode::not_found);
    CHECK(unknown.error().message == "there is no webhook endpoint 'b' in the settings");
  }
}
