#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "daemon/api/streams/promotion_feed.hpp"
#include "daemon/net/http_client.hpp"
#include "daemon/net/server.hpp"
#include "fixture.hpp"

using namespace driftgate;
using driftgate::api::test::Fixture;

namespace {

std::vector<net::SseEvent> drain(net::EventFeed& feed) {
  std::vector<net::SseEvent> all;
  for (int i = 0; i < 100; ++i) {
    const auto batch = feed.next();
    CHECK(batch.events.size() <= net::EventFeed::kMaxBatch + 1);
    all.insert(all.end(), batch.events.begin(), batch.events.end());
    if (batch.ended || batch.events.empty()) break;
  }
  return all;
}

}  // namespace

TEST_CASE("a promotion's stream gives its entries with their sequence numbers, then where it stands") {
  Fixture fixture;
  const auto events = drain(*api::promotion_feed(fixture.service, fixture.evidence, "pr-1", {}, api::FeedOf::entries));
  REQUIRE(events.size() == 6);
  CHECK(events[0].id == "0");
  CHECK(events[0].name == "state_changed");
  CHECK(events[0].data == api::test::FakeEvidence::entry_json(0));
  CHECK(events[4].id == "8");
  CHECK(events[5].id.empty());
  CHECK(events[5].name == "progress");
}

TEST_CASE("a resumed stream gives exactly the entries after the last id, from every one of them") {
  Fixture fixture;
  fixture.service.state = "succeeded";
  for (std::int64_t last = 0; last < 10; ++last) {
    CAPTURE(last);
    const auto events = drain(*api::promotion_feed(fixture.service, fixture.evidence, "pr-1", last, api::FeedOf::entries));
    std::vector<std::string> ids;
    for (const auto& event : events)
      if (!event.id.empty()) ids.push_back(event.id);
    std::vector<std::string> expected;
    for (std::int64_t seq = 0; seq < 10; seq += 2)
      if (seq > last) expected.push_back(std::to_string(seq));
    CHECK(ids == expected);
    CHECK(events.back().name == "end");
  }
}

TEST_CASE("a viewer's stream shows states and shares, and nothing else of the log") {
  Fixture fixture;
  const auto events = drain(*api::promotion_feed(fixture.service, fixture.evidence, "pr-1", {}, api::FeedOf::states));
  REQUIRE(events.size() == 6);
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const auto entry = nlohmann::json::parse(events[i].data);
    CHECK(events[i].name == "state_changed");
    CHECK(events[i].id == std::to_string(2 * i));
    CHECK(entry["seq"] == 2 * i);
    CHECK_FALSE(entry.contains("actor"));
    for (const auto& [name, value] : entry["body"].items())
      CHECK_MESSAGE(std::set<std::string>({"from", "to", "stage", "attempt", "traffic"}).contains(name), name);
  }
  for (const char* scopes : {"viewer", "promoter", "approver", "operator"}) {
    const auto response = fixture.call("GET", "/v1/promotions/pr-1/events", scopes);
    REQUIRE(response.feed);
    CHECK(response.feed->next().events.at(0).data.find("actor") == std::string::npos);
  }
  for (const char* scopes : {"auditor", "admin"}) {
    const auto response = fixture.call("GET", "/v1/promotions/pr-1/events", scopes);
    REQUIRE(response.feed);
    CHECK(response.feed->next().events.at(0).data == api::test::FakeEvidence::entry_json(0));
  }
}

TEST_CASE("a stream and a wait end with their token") {
  Fixture fixture;
  const auto stream = fixture.call("GET", "/v1/promotions/pr-1/events", "auditor");
  REQUIRE(stream.feed);
  CHECK_FALSE(stream.feed->next().ended);
  const auto waiting = fixture.call("GET", "/v1/promotions/pr-1", "viewer", {}, {{"Prefer", "wait=30"}});
  REQUIRE(waiting.deferred);
  CHECK_FALSE(waiting.deferred->poll(false));
  fixture.tokens.ended = true;
  const auto last = stream.feed->next();
  CHECK(last.ended);
  CHECK(last.events.empty());
  const auto refused = waiting.deferred->poll(false);
  REQUIRE(refused);
  CHECK(refused->status == 401);
}

TEST_CASE("progress is told again only when it changed") {
  Fixture fixture;
  const auto feed = api::promotion_feed(fixture.service, fixture.evidence, "pr-1", {}, api::FeedOf::entries);
  drain(*feed);
  CHECK(feed->next().events.empty());
  fixture.evidence.size = 11;
  CHECK(feed->next().events.at(0).id == "10");
}

TEST_CASE("a long history is given in bounded batches without a gap") {
  Fixture fixture;
  fixture.evidence.size = 1000;
  fixture.service.state = "rejected";
  const auto events = drain(*api::promotion_feed(fixture.service, fixture.evidence, "pr-1", {}, api::FeedOf::entries));
  REQUIRE(events.size() == 501);
  for (std::size_t i = 0; i < 500; ++i) CHECK(events[i].id == std::to_string(2 * i));
}

TEST_CASE("the stream resumes over a socket with Last-Event-ID and ends with the promotion") {
  Fixture fixture;
  auto server = net::Server::start({}, fixture.api);
  REQUIRE(server);
  const auto ids_after = [&](const net::Headers& extra, bool end_it) {
    net::ClientRequest request;
    request.target = "/v1/promotions/pr-1/events";
    request.headers = extra;
    request.headers.push_back({"Authorization", "Bearer dg_auditor"});
    net::SseParser parser;
    std::vector<std::string> ids;
    net::HttpClient client(net::Url{"127.0.0.1", (*server)->port(), "/"});
    const auto response = client.stream(request, [&](std::string_view bytes) {
      const auto fed = parser.feed(bytes, [&](const net::SseEvent& event) {
        ids.push_back(event.id.empty() ? event.name : event.id);
        if (event.name == "progress" && end_it) {
          const std::lock_guard lock(fixture.service.mutex);
          fixture.service.state = "aborted";
        }
        return true;
      });
      (*server)->wake_streams();
      return fed.has_value();
    });
    REQUIRE(response);
    CHECK(response->status == 200);
    return ids;
  };
  CHECK(ids_after({{"Last-Event-ID", "4"}}, true) == std::vector<std::string>{"6", "8", "progress", "end"});
  CHECK(ids_after({{"Last-Event-ID", "8"}}, false) == std::vector<std::string>{"end"});
}

TEST_CASE("a Last-Event-ID that is no number is refused") {
  Fixture fixture;
  CHECK(fixture.call("GET", "/v1/promotions/pr-1/events", "viewer", {}, {{"Last-Event-ID", "x"}}).status ==
        400);
  CHECK(fixture.call("GET", "/v1/promotions/none/events", "viewer").status == 404);
}

TEST_CASE("Prefer: wait answers when the promotion has ended, or as it is when the wait is over") {
  Fixture fixture;
  const auto waiting =
      fixture.call("GET", "/v1/promotions/pr-1", "viewer", {}, {{"Prefer", "respond-async, wait=30"}});
  REQUIRE(waiting.deferred);
  CHECK(waiting.deferred->wait() == std::chrono::seconds(30));
  CHECK_FALSE(waiting.deferred->poll(false));
  const auto late = waiting.deferred->poll(true);
  REQUIRE(late);
  CHECK(late->body.find("\"running\"") != std::string::npos);
  fixture.service.state = "succeeded";
  const auto done = waiting.deferred->poll(false);
  REQUIRE(done);
  CHECK(done->status == 200);
  CHECK(api::test::header_of(*done, "preference-applied") == "wait=30");
}

TEST_CASE("a promotion that was asked for with a wait is kept under its key and keeps 201 and Location") {
  Fixture fixture;
  const net::Headers headers{{"Prefer", "wait=5"}, {"Idempotency-Key", "k"}};
  const auto first = fixture.call("POST", "/v1/promotions", "promoter",
                                  R"({"model":"m","engine":"e","contract":"c"})", headers);
  REQUIRE(first.deferred);
  fixture.service.state = "succeeded";
  const auto answer = first.deferred->poll(false);
  REQUIRE(answer);
  CHECK(answer->status == 201);
  CHECK(api::test::header_of(*answer, "location") == "/v1/promotions/pr-1");
  REQUIRE(fixture.idempotency.kept.size() == 1);
  CHECK(fixture.idempotency.kept.begin()->second.response.status == 201);
}
