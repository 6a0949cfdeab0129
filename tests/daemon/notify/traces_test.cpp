#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "daemon/base/unique_fd.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/notify/traces/trace_sender.hpp"
#include "raw_peer.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::notify;
using nlohmann::json;
using schema::EntryValue;
using schema::EvidenceKind;
using store::testing::must;

namespace {

constexpr std::chrono::seconds kPatience{120};

schema::EntryDraft about(const std::string& promotion, EvidenceKind kind, std::int64_t second,
                         EntryValue::Object body, const std::string& stage = {}) {
  schema::EntryDraft draft{.time_us = second * 1'000'000,
                           .kind = kind,
                           .actor = "driftgate",
                           .subject = {},
                           .body = std::move(body)};
  draft.subject.model = "m";
  draft.subject.promotion = promotion;
  draft.subject.contract = "sha256:" + std::string(64, 'c');
  if (!stage.empty()) {
    draft.subject.stage = stage;
    draft.subject.attempt = 1;
  }
  return draft;
}

schema::EntryDraft state(const std::string& promotion, std::int64_t second, const std::string& to,
                         const std::string& stage, std::int64_t attempt = 1) {
  return about(promotion, EvidenceKind::state_changed, second,
               {{"from", "running"},
                {"to", to},
                {"stage", stage},
                {"reason", "because"},
                {"attempt", attempt},
                {"traffic", "reverted"}});
}

schema::EntryDraft verdict(const std::string& promotion, std::int64_t second, double estimate) {
  return about(promotion, EvidenceKind::verdict_reached, second,
               {{"clause", "runtime.errors"},
                {"verdict", "violated"},
                {"slice", "language=de"},
                {"severity", "hard"},
                {"limit_kind", "max"},
                {"n", 480},
                {"message", "too many failures"},
                {"estimate", EntryValue::measured(estimate)},
                {"threshold", EntryValue::measured(0.05)},
                {"e_value", EntryValue::measured(std::numeric_limits<double>::infinity())}},
               "canary");
}

/// A promotion with two attempts at a stage, a canary, and its rejection.
std::vector<schema::EntryDraft> story(const std::string& promotion) {
  return {about(promotion, EvidenceKind::promotion_requested, 10,
                {{"engine", "int8"},
                 {"kernel", "int8"},
                 {"candidate", "v"},
                 {"seed", "1"},
                 {"request", EntryValue::Object{}}}),
          state(promotion, 11, "running", "offline-numeric"),
          state(promotion, 20, "running", "offline-numeric", 2),
          state(promotion, 30, "running", "canary"),
          state(promotion, 35, "paused", "canary"),
          state(promotion, 36, "running", "canary"),
          verdict(promotion, 38, 0.5),
          about(promotion, EvidenceKind::verdict_reached, 38,
                {{"scope", "stage"}, {"verdict", "violated"}, {"ended", true}}, "canary"),
          state(promotion, 39, "rolling_back", "canary"),
          state(promotion, 40, "rejected", "canary")};
}

std::vector<schema::Entry> numbered(const std::vector<schema::EntryDraft>& drafts) {
  std::vector<schema::Entry> entries;
  for (const auto& draft : drafts) entries.push_back({static_cast<std::int64_t>(entries.size()), draft});
  return entries;
}

std::string attribute(const json& item, const std::string& key) {
  for (const auto& one : item["attributes"])
    if (one["key"] == key) return one["value"].begin()->dump();
  return {};
}

/// A collector that answers with the next of its answers, the last one for ever.
struct Answer {
  int status = 200;
  std::string retry_after{}, body = "{}";
};
using Answers = std::vector<Answer>;
class Collector : public net::test::FunctionHandler {
 public:
  explicit Collector(Answers answers) : answers_(std::move(answers)) {
    answer = [this](const net::Request& request) {
      const std::lock_guard lock(mutex_);
      const auto& next = answers_[std::min(requests_.size(), answers_.size() - 1)];
      net::Response response;
      response.status = next.status;
      response.body = next.body;
      if (!next.retry_after.empty()) response.headers.push_back({"Retry-After", next.retry_after});
      requests_.push_back(request);
      changed_.notify_all();
      return response;
    };
    server_ = must(net::Server::start({}, *this));
  }
  ~Collector() override { server_->stop(std::chrono::seconds(1)); }
  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(server_->port()) + "/otel";
  }
  std::vector<net::Request> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [&] { return requests_.size() >= count; }));
    return requests_;
  }

 private:
  Answers answers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<net::Request> requests_;
  std::unique_ptr<net::Server> server_;
};

/// A collector that takes connections and never answers.
class Silent {
 public:
  Silent() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(listener_.get(), raw, size) == 0);
    REQUIRE(::listen(listener_.get(), 8) == 0);
    REQUIRE(::getsockname(listener_.get(), raw, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void await_connection() {
    taken_.emplace_back(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(taken_.back());
  }
  /// That were made so far.
  std::size_t connections() {
    while (has_waiting()) await_connection();
    return taken_.size();
  }

 private:
  [[nodiscard]] bool has_waiting() const {
    pollfd waiting{listener_.get(), POLLIN, 0};
    return ::poll(&waiting, 1, 0) > 0;
  }
  base::UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::vector<base::UniqueFd> taken_;
};

struct Fixture {
  store::testing::TempDir dir;
  std::unique_ptr<store::Store> store = store::testing::open_store(dir.path());
  std::mutex mutex;
  std::condition_variable logged;
  std::vector<std::string> lines;
  TraceOptions options;
  std::unique_ptr<TraceSender> sender;

  Fixture() {
    options.resource = {"1.2.3", "log"};
    options.now_us = [] { return std::int64_t{1'700'000'000'000'000}; };
    options.log = [this](std::string_view, const std::string& text) {
      const std::lock_guard lock(mutex);
      lines.push_back(text);
      logged.notify_all();
    };
    options.first_retry = std::chrono::milliseconds(1);
  }
  ~Fixture() { sender.reset(); }
  void start(const std::string& url, const base::EngineAccess& access = {}) {
    sender = must(TraceSender::start(*store, {url, access}, options));
  }
  void append(const std::vector<schema::EntryDraft>& drafts) {
    store::testing::write(*store, [&](store::Tx& tx) -> schema::Result<void> {
      for (const auto& draft : drafts) TRY(evidence::append(tx, draft));
      return {};
    });
  }
  /// Waits until something has become of that many spans and events; an end would break the last request off.
  TraceFigures settled(std::uint64_t items) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const auto figures = sender->figures();
      if (figures.spans + figures.events + figures.dropped >= items) return figures;
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      std::this_thread::yield();
    }
  }
  void wait_for_line() {
    std::unique_lock lock(mutex);
    REQUIRE(logged.wait_for(lock, kPatience, [&] { return !lines.empty(); }));
  }
};

}  // namespace

TEST_CASE(
    "a promotion's entries make a span for it, one for each attempt at a stage, and events of verdicts") {
  const auto trace = trace_of("pr-1", numbered(story("pr-1")));
  REQUIRE(trace.spans.size() == 4);
  CHECK(trace.ended);
  const auto& root = trace.spans.back();
  CHECK(root.name == "promotion");
  CHECK(root.parent.empty());
  CHECK(root.start_us == 10'000'000);
  CHECK(root.end_us == 40'000'000);
  CHECK(trace.spans[0].name == "stage offline-numeric");
  CHECK(trace.spans[0].end_us == 20'000'000);
  CHECK(trace.spans[1].start_us == 20'000'000);
  const auto& canary = trace.spans[2];
  CHECK(canary.start_us == 30'000'000);
  CHECK(canary.end_us == 40'000'000);  // a pause and the way back to 0% belong to it
  for (const auto& span : trace.spans) CHECK(span.trace == trace_id("pr-1"));
  for (std::size_t i = 0; i < 3; ++i) CHECK(trace.spans[i].parent == root.id);
  REQUIRE(trace.events.size() == 1);
  CHECK(trace.events[0].span == canary.id);
  CHECK(trace.events[0].time_us == 38'000'000);
}

TEST_CASE("ids follow from the promotion alone and have the lengths of OTLP") {
  CHECK(trace_id("pr-1").size() == 32);
  CHECK(span_id("pr-1", "canary", 1).size() == 16);
  CHECK(trace_id("pr-1") == trace_id("pr-1"));
  CHECK(trace_id("pr-1") != trace_id("pr-2"));
  CHECK(span_id("pr-1", "canary", 1) != span_id("pr-1", "canary", 2));
}

TEST_CASE("what has not ended has no span yet, and what others did is passed over") {
  auto drafts = story("pr-1");
  drafts.resize(6);
  drafts.push_back(state("pr-2", 37, "errored", "canary"));
  const auto trace = trace_of("pr-1", numbered(drafts));
  CHECK(trace.spans.size() == 2);
  CHECK_FALSE(trace.ended);
}

TEST_CASE("a promotion that errored is an error, with its stage, and one that was rejected is none") {
  auto drafts = story("pr-1");
  drafts.back() = state("pr-1", 40, "errored", "canary");
  const auto errored = trace_of("pr-1", numbered(drafts));
  CHECK(errored.spans[3].error == "because");
  CHECK(errored.spans[2].error == "because");
  CHECK_FALSE(errored.spans[0].error.has_value());
  CHECK_FALSE(trace_of("pr-1", numbered(story("pr-1"))).spans[3].error.has_value());
}

TEST_CASE("spans and events are written as OTLP's JSON") {
  const auto trace = trace_of("pr-1", numbered(story("pr-1")));
  const auto traces = json::parse(otlp_traces({"1.2.3", "log"}, trace.spans));
  const auto& scope = traces["resourceSpans"][0]["scopeSpans"][0];
  CHECK(attribute(traces["resourceSpans"][0]["resource"], "service.name") == "\"driftgate\"");
  CHECK(scope["scope"]["version"] == "1.2.3");
  const auto& span = scope["spans"][2];
  CHECK(span["startTimeUnixNano"] == "30000000000");
  CHECK(span["kind"] == 1);
  CHECK(attribute(span, "driftgate.attempt") == "\"1\"");
  CHECK(attribute(span, "driftgate.verdict") == "\"violated\"");
  CHECK_FALSE(scope["spans"][3].contains("parentSpanId"));
  const auto logs = json::parse(otlp_logs({"1.2.3", "log"}, trace.events));
  const auto& event = logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
  CHECK(event["eventName"] == "gen_ai.evaluation.result");
  CHECK(event["traceId"] == span["traceId"]);
  CHECK(event["spanId"] == span["spanId"]);
  CHECK(attribute(event, "gen_ai.evaluation.name") == "\"runtime.errors\"");
  CHECK(attribute(event, "gen_ai.evaluation.score.value") == "0.5");
  CHECK(attribute(event, "gen_ai.evaluation.score.label") == "\"violated\"");
  CHECK(attribute(event, "driftgate.e_value") == "\"Infinity\"");
  CHECK(attribute(event, "driftgate.samples") == "\"480\"");
  CHECK(attribute(event, "driftgate.evidence.seq") ==
        "\"6\"");  // the entry's, by which a repetition is known
}

TEST_CASE("a collector's answer says how much of a request it refused") {
  CHECK(otlp_rejected("{}") == 0);
  CHECK(otlp_rejected("") == 0);
  CHECK(otlp_rejected("not json") == 0);
  CHECK(otlp_rejected(R"({"partialSuccess":{}})") == 0);
  CHECK(otlp_rejected(R"({"partialSuccess":{"rejectedSpans":"3"}})") == 3);
  CHECK(otlp_rejected(R"({"partialSuccess":{"rejectedLogRecords":2}})") == 2);
  CHECK(otlp_rejected(R"({"partialSuccess":{"rejectedSpans":"-3"}})") == 0);
  CHECK(otlp_rejected(R"([{"partialSuccess":1}])") == 0);
}

TEST_CASE("Retry-After is seconds or a date") {
  using std::chrono::milliseconds;
  constexpr std::int64_t kNow = 784'111'777'000'000;  // Sun, 06 Nov 1994 08:49:37 GMT
  CHECK(parse_retry_after("7", kNow) == milliseconds(7'000));
  CHECK(parse_retry_after("Sun, 06 Nov 1994 08:49:47 GMT", kNow) == milliseconds(10'000));
  CHECK(parse_retry_after("Sun, 06 Nov 1994 08:00:00 GMT", kNow) == milliseconds(0));
  CHECK(parse_retry_after("99999999999", kNow) == milliseconds(86'400'000));
  for (const char* bad : {"", "-1", "soon", "1.5", "Sun, 06 Nov 1994 08:49:47 GMT!"})
    CHECK_FALSE(parse_retry_after(bad, kNow).has_value());
}

TEST_CASE_FIXTURE(Fixture, "a promotion is sent once, with the key of its file") {
  Collector collector(Answers{{200}});
  std::ofstream(dir.path() / "key") << "secret-1\n";
  std::filesystem::permissions(dir.path() / "key", std::filesystem::perms::owner_read);
  start(collector.url(), {.key_file = (dir.path() / "key").string(), .key_header = "x-key"});
  append(story("pr-1"));
  sender->note("state_changed", "pr-1");
  auto requests = collector.wait_for(2);
  CHECK(requests[0].path == "/otel/v1/traces");
  CHECK(requests[1].path == "/otel/v1/logs");
  CHECK(requests[0].header("content-type") == "application/json");
  CHECK(requests[0].header("x-key") == "secret-1");
  append(story("pr-2"));
  sender->note("verdict_reached", "pr-2");  // sent with the change of state that follows
  sender->note("state_changed", "pr-1");    // nothing new
  sender->note("state_changed", "pr-2");
  requests = collector.wait_for(4);
  CHECK(json::parse(requests[2].body)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] ==
        trace_id("pr-2"));
  const auto figures = settled(10);
  CHECK(figures.spans == 8);
  CHECK(figures.events == 2);
  CHECK(figures.dropped == 0);
}

TEST_CASE_FIXTURE(Fixture, "a stage is sent when it ends, and what was sent is not sent again") {
  Collector collector(Answers{{200}});
  start(collector.url());
  auto drafts = story("pr-1");
  append({drafts.begin(), drafts.begin() + 4});
  sender->note("state_changed", "pr-1");
  auto requests = collector.wait_for(1);
  CHECK(json::parse(requests[0].body)["resourceSpans"][0]["scopeSpans"][0]["spans"].size() == 2);
  append({drafts.begin() + 4, drafts.end()});
  sender->note("state_changed", "pr-1");
  requests = collector.wait_for(3);
  CHECK(json::parse(requests[1].body)["resourceSpans"][0]["scopeSpans"][0]["spans"].size() == 2);
}

TEST_CASE_FIXTURE(Fixture, "a collector that is throttled is asked again, with the same body") {
  Collector collector(Answers{{429, "0"}, {503}, {502}, {504}, {200}});
  start(collector.url());
  append(story("pr-1"));
  sender->note("state_changed", "pr-1");
  const auto requests = collector.wait_for(6);
  for (std::size_t i = 1; i < 5; ++i) CHECK(requests[i].body == requests[0].body);
  const auto figures = settled(5);
  CHECK(figures.spans == 4);
  CHECK(figures.dropped == 0);
}

TEST_CASE_FIXTURE(Fixture, "what a collector refuses for good is dropped and counted, and the rest goes on") {
  Collector collector(Answers{{400}, {200}});
  start(collector.url());
  append(story("pr-1"));
  sender->note("state_changed", "pr-1");
  CHECK(collector.wait_for(2).size() == 2);
  const auto figures = settled(5);
  CHECK(figures.dropped == 4);
  CHECK(figures.events == 1);
}

TEST_CASE_FIXTURE(Fixture, "a wait that is longer than the patience is not begun") {
  options.patience = std::chrono::milliseconds(1'000);
  Collector collector(Answers{{429, "3600"}, {200}});
  start(collector.url());
  append(story("pr-1"));
  sender->note("state_changed", "pr-1");
  CHECK(collector.wait_for(2)[1].path == "/otel/v1/logs");
  CHECK(settled(5).dropped == 4);
}

TEST_CASE_FIXTURE(Fixture,
                  "a collector that asks for no wait, or names a time that is past, is not asked in a loop") {
  options.first_retry = std::chrono::milliseconds(500);
  options.patience = std::chrono::milliseconds(1'200);
  Answers answers{{503, "0"}};
  SUBCASE("seconds") {}
  SUBCASE("a date") {
    answers = {{503, "Sun, 06 Nov 1994 08:00:00 GMT"}};
  }
  Collector collector(answers);
  start(collector.url());
  append(story("pr-1"));
  sender->note("state_changed", "pr-1");
  wait_for_line();  // spans were dropped: a third attempt would come a second after the second, and too late
  const auto requests = collector.wait_for(1);
  CHECK(std::ranges::count(requests, std::string("/otel/v1/traces"), &net::Request::path) <= 2);
}

TEST_CASE_FIXTURE(Fixture, "a collector that never answers does not hold the end up") {
  options.timeout = std::chrono::hours(1);
  Silent collector;
  start(collector.url());
  append(story("pr-1"));
  sender->note("state_changed", "pr-1");
  collector.await_connection();
  sender->stop();  // breaks the first attempt off, and makes none for the events
  CHECK(collector.connections() == 1);
  CHECK(sender->figures().dropped == 5);
}

TEST_CASE_FIXTURE(Fixture, "what is refused of a request that was taken is counted as dropped") {
  Collector collector(Answers{{200, "", R"({"partialSuccess":{"rejectedSpans":"3"}})"}, {200}});
  start(collector.url());
  append(story("pr-1"));
  sender->note("state_changed", "pr-1");
  CHECK(collector.wait_for(2).size() == 2);
  const auto figures = settled(5);
  CHECK(figures.spans == 1);
  CHECK(figures.dropped == 3);
}

TEST_CASE_FIXTURE(Fixture, "a queue that is full drops and counts, and holds nobody up") {
  options.max_waiting = 2;
  options.first_retry = std::chrono::milliseconds(60'000);
  Collector collector(Answers{{503}});
  start(collector.url());
  append(story("pr-1"));
  sender->note("state_changed", "pr-1");
  CHECK(collector.wait_for(1).size() == 1);  // it waits a minute for the next attempt
  for (const char* id : {"pr-2", "pr-3", "pr-3", "pr-4", "pr-5"}) sender->note("state_changed", id);
  CHECK(sender->figures().waiting == 2);
  CHECK(sender->figures().dropped == 2);
  sender->stop();  // does not wait that minute
}

TEST_CASE_FIXTURE(Fixture, "a large trace is sent in parts") {
  options.max_items = 3;
  Collector collector(Answers{{200}});
  start(collector.url());
  append(story("pr-1"));
  sender->note("state_changed", "pr-1");
  const auto requests = collector.wait_for(3);
  CHECK(json::parse(requests[0].body)["resourceSpans"][0]["scopeSpans"][0]["spans"].size() == 3);
  CHECK(json::parse(requests[1].body)["resourceSpans"][0]["scopeSpans"][0]["spans"].size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "settings that cannot be used keep the daemon from starting") {
  CHECK_FALSE(TraceSender::start(*store, {"collector:4318", {}}, options).has_value());
  CHECK_FALSE(
      TraceSender::start(*store, {"http://127.0.0.1:1", {.key_file = "/nowhere"}}, options).has_value());
  CHECK_FALSE(TraceSender::start(*store, {"http://127.0.0.1:1", {.key_header = "Content-Length"}}, options)
                  .has_value());
}
