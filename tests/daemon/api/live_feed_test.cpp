#include "daemon/api/streams/live_feed.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "daemon/api/streams/shown_entry.hpp"
#include "fixture.hpp"
#include "schema/evidence/entry_kinds.hpp"

using namespace driftgate;
using driftgate::api::test::Fixture;
using nlohmann::json;

namespace {

/// Streams of one board, with a count of commits that the test moves.
struct Streams : Fixture {
  std::uint64_t commits = 1;
  std::shared_ptr<api::EventBoard> board = std::make_shared<api::EventBoard>(
      service, evidence, [this] { return commits; }, [this] { return now_us; });

  std::shared_ptr<net::EventFeed> open(std::optional<std::int64_t> after = {},
                                       api::FeedOf shown = api::FeedOf::entries) {
    return api::live_feed(board, {"1.2.3", 77}, after, shown);
  }
};

/// "hello", "reset", "progress" or the id of an entry.
std::vector<std::string> names(const net::EventFeed::Batch& batch) {
  std::vector<std::string> found;
  for (const auto& event : batch.events) found.push_back(event.id.empty() ? event.name : event.id);
  return found;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE_FIXTURE(Streams,
                  "a stream begins at the present, tells who it is, and then what becomes of everything") {
  const auto feed = open();
  const auto first = feed->next();
  CHECK(names(first) == Names{"hello", "progress"});
  CHECK(json::parse(first.events[0].data) ==
        json{{"tree_size", 10}, {"server", {{"version", "1.2.3"}, {"started_us", 77}}}});
  CHECK(json::parse(first.events[1].data)["id"] == "pr-1");
  CHECK(feed->next().events.empty());
  evidence.size = 12;
  CHECK(feed->next().events.empty());  // nothing was committed
  ++commits;
  const auto news = feed->next();
  CHECK(names(news) == Names{"10", "11"});
  CHECK(news.events[0].name == "state_changed");
  CHECK(news.events[0].data == api::test::FakeEvidence::entry_json(10));
}

TEST_CASE_FIXTURE(Streams, "a resumed stream gives exactly the entries after the last id") {
  for (std::int64_t last = 0; last < 10; ++last) {
    CAPTURE(last);
    Names expected{"hello"};
    for (std::int64_t seq = last + 1; seq < 10; ++seq) expected.push_back(std::to_string(seq));
    expected.emplace_back("progress");
    CHECK(names(open(last)->next()) == expected);
  }
}

TEST_CASE_FIXTURE(Streams, "an id beyond the log is that of another log: the stream begins anew") {
  const auto feed = open(10);
  const auto first = feed->next();
  CHECK(names(first) == Names{"hello", "reset", "progress"});
  CHECK(json::parse(first.events[1].data) == json{{"tree_size", 10}});
  evidence.size = 11;
  ++commits;
  CHECK(names(feed->next()) == Names{"10"});
}

TEST_CASE_FIXTURE(Streams, "a long history comes in bounded batches without a gap, and progress at its end") {
  evidence.size = 5'000;
  for (const auto shown : {api::FeedOf::entries, api::FeedOf::states}) {
    const auto feed = open(0, shown);
    std::int64_t next = 1;
    bool progress = false;
    for (int i = 0; i < 200 && !progress; ++i) {
      const auto batch = feed->next();
      CHECK(batch.events.size() <= net::EventFeed::kMaxBatch);
      CHECK_FALSE(batch.ended);
      for (const auto& event : batch.events) {
        if (event.name == "hello") continue;
        progress = event.name == "progress";
        if (!progress) CHECK(event.id == std::to_string(next++));
      }
    }
    CHECK(progress);
    CHECK(next == 5'000);
  }
}

TEST_CASE_FIXTURE(Streams, "entries that a viewer may not see are passed over, also thousands of them") {
  evidence.kind = "evidence_read";
  evidence.size = 20'000;
  const auto feed = open(0, api::FeedOf::states);
  Names all;
  bool more = true;
  for (int i = 0; i < 100 && more; ++i) {
    const int pages = evidence.pages;
    const auto batch = feed->next();
    if (i > 0) CHECK(evidence.pages <= pages + 1);  // one read a call, so that others have their turn
    for (const auto& name : names(batch)) all.push_back(name);
    more = batch.more;
  }
  CHECK_FALSE(more);
  CHECK(all == Names{"hello", "progress"});
}

TEST_CASE_FIXTURE(Streams, "after a time without listeners the newest entries alone are read for all") {
  evidence.size = 10;
  CHECK(board->size().value() == 10);
  evidence.size = 50'000;
  ++commits;
  const int pages = evidence.pages;
  CHECK(board->size().value() == 50'000);
  CHECK(evidence.pages <= pages + 3);
  const auto newest = board->entries_after(49'997, 10);
  REQUIRE(newest.has_value());
  REQUIRE(newest->size() == 2);
  CHECK((*newest)[0].seq == 49'998);
  const auto older = board->entries_after(20, 10);  // what is no longer held is read for who asks
  REQUIRE(older.has_value());
  REQUIRE(older->size() == 10);
  CHECK(older->front().seq == 21);
}

TEST_CASE_FIXTURE(Streams, "many commits in a short time share a look, and the last of them is not lost") {
  const auto feed = open();
  CHECK(names(feed->next()) == Names{"hello", "progress"});
  for (int i = 0; i < 20; ++i) {
    ++commits;
    service.state = i % 2 == 0 ? "paused" : "running";
    CHECK(feed->next().events.empty());
  }
  service.state = "paused";
  CHECK(service.looks == 1);
  now_us += 200'000;
  CHECK(names(feed->next()) == Names{"progress"});
  CHECK(service.looks == 2);
  now_us -= 5'000'000;  // a clock that was set back does not keep an old look
  CHECK(feed->next().events.empty());
  CHECK(service.looks == 3);
}

TEST_CASE_FIXTURE(Streams, "however many streams there are, each commit is looked at once") {
  std::vector<std::shared_ptr<net::EventFeed>> feeds;
  for (int i = 0; i < 50; ++i) feeds.push_back(open());
  for (const auto& feed : feeds) CHECK(names(feed->next()) == Names{"hello", "progress"});
  CHECK(service.looks == 1);
  const int pages = evidence.pages;
  for (int commit = 1; commit <= 3; ++commit) {
    ++commits;
    now_us += 200'000;
    ++evidence.size;
    service.state = commit % 2 == 0 ? "running" : "paused";
    for (const auto& feed : feeds)
      CHECK(names(feed->next()) == Names{std::to_string(evidence.size - 1), "progress"});
    CHECK(service.looks == 1 + commit);
    CHECK(evidence.pages == pages + commit);
  }
  for (const auto& feed : feeds) CHECK(feed->next().events.empty());
  CHECK(service.looks == 4);
  now_us += 1'000'000;  // jobs go on without a commit
  for (const auto& feed : feeds) CHECK(feed->next().events.empty());
  CHECK(service.looks == 5);
}

TEST_CASE_FIXTURE(Streams, "progress is told of what has changed only, and once more of what has ended") {
  service.open = {"pr-1", "pr-2", "pr-3"};
  const auto feed = open();
  CHECK(names(feed->next()) == Names{"hello", "progress", "progress", "progress"});
  service.open = {"pr-1", "pr-3"};
  ++commits;
  now_us += 200'000;
  const auto news = feed->next();
  REQUIRE(names(news) == Names{"progress"});
  CHECK(json::parse(news.events[0].data)["id"] == "pr-2");
  CHECK(names(open()->next()) == Names{"hello", "progress", "progress"});
  ++commits;
  CHECK(feed->next().events.empty());
}

TEST_CASE_FIXTURE(Streams, "more open promotions than one batch holds are all told") {
  service.open.clear();
  for (int i = 0; i < 150; ++i) service.open.push_back("pr-" + std::to_string(1'000 + i));
  const auto feed = open();
  std::set<std::string> seen;
  for (int i = 0; i < 3; ++i) {
    const auto batch = feed->next();
    CHECK(batch.events.size() <= net::EventFeed::kMaxBatch);
    for (const auto& event : batch.events)
      if (event.name == "progress") seen.insert(json::parse(event.data)["id"]);
  }
  CHECK(seen.size() == 150);
}

TEST_CASE(
    "of each kind of entry everybody sees no more than states and shares, and nothing of tokens and "
    "reading") {
  const std::set<std::string> hidden{"token_granted", "token_revoked", "evidence_read", "evidence_redacted",
                                     "clock_stepped", "key_rotated",   "epoch_changed", "router_replaced"};
  const json entry{{"v", 1},
                   {"seq", 3},
                   {"time_us", 5},
                   {"kind", "k"},
                   {"actor", "ada"},
                   {"subject", {{"model", "m"}}},
                   {"body", {{"reason", "secret"}, {"to", "running"}, {"candidate_bp", 100}}}};
  for (std::size_t i = 0; i < schema::kEvidenceKinds; ++i) {
    const std::string kind(schema::to_string(static_cast<schema::EvidenceKind>(i)));
    CAPTURE(kind);
    const auto shown = api::shown_to_all(kind, entry);
    CHECK(shown.has_value() == !hidden.contains(kind));
    if (!shown) continue;
    CHECK_FALSE(shown->contains("actor"));
    CHECK((*shown)["seq"] == 3);
    CHECK((*shown)["subject"]["model"] == "m");
    const json body = kind == "state_changed"      ? json{{"to", "running"}}
                      : kind.starts_with("route_") ? json{{"candidate_bp", 100}}
                                                   : json::object();
    CHECK((*shown)["body"] == body);
  }
}

TEST_CASE("a stream of whole entries from a given place on is recorded as a read of the log") {
  Fixture fixture;
  REQUIRE(fixture.call("GET", "/v1/events?after=0", "viewer").feed);
  REQUIRE(fixture.call("GET", "/v1/events", "auditor").feed);
  CHECK(fixture.evidence.reads.empty());
  REQUIRE(fixture.call("GET", "/v1/events?after=0", "auditor").feed);
  REQUIRE(fixture.call("GET", "/v1/events", "auditor", {}, {{"Last-Event-ID", "8"}}).feed);
  CHECK(fixture.evidence.reads == std::vector<std::string>(2, "auditor events"));
}

TEST_CASE("the route streams to viewers without actors, to auditors whole, and ends with the token") {
  Fixture fixture;
  for (const char* scopes : {"viewer", "operator", "auditor", "admin"}) {
    const auto response = fixture.call("GET", "/v1/events?after=8", scopes);
    REQUIRE(response.feed);
    CHECK(api::test::header_of(response, "content-type") == "text/event-stream");
    const auto batch = response.feed->next();
    CHECK(names(batch) == Names{"hello", "9", "progress"});
    const bool whole = std::string(scopes) == "auditor" || std::string(scopes) == "admin";
    CHECK((batch.events[1].data == api::test::FakeEvidence::entry_json(9)) == whole);
    CHECK((batch.events[1].data.find("actor") != std::string::npos) == whole);
  }
  CHECK(fixture.call("GET", "/v1/events?after=x", "viewer").status == 400);
  const auto resumed = fixture.call("GET", "/v1/events", "viewer", {}, {{"Last-Event-ID", "8"}});
  REQUIRE(resumed.feed);
  CHECK(names(resumed.feed->next()) == Names{"hello", "9", "progress"});
  fixture.tokens.ended = true;
  const auto last = resumed.feed->next();
  CHECK(last.ended);
  CHECK(last.events.empty());
}
