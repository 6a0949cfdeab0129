#include "daemon/notify/sender.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "raw_peer.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::notify;
using store::testing::must;

namespace {

constexpr const char* kSecretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr std::chrono::seconds kPatience{120};

/// A receiver on loopback that answers with the next status of its list, the last one for ever.
class Receiver : public net::test::FunctionHandler {
 public:
  explicit Receiver(std::vector<int> statuses) : statuses_(std::move(statuses)) {
    answer = [this](const net::Request& request) {
      const std::lock_guard lock(mutex_);
      net::Response response;
      response.status = statuses_[std::min(requests_.size(), statuses_.size() - 1)];
      if (response.status == 302) response.headers.push_back({"Location", "/elsewhere"});
      requests_.push_back(request);
      changed_.notify_all();
      return response;
    };
    server_ = std::move(*net::Server::start({}, *this));
  }
  ~Receiver() override { server_->stop(std::chrono::seconds(1)); }

  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(server_->port()) + "/hook";
  }
  std::vector<net::Request> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    const bool there = changed_.wait_for(lock, kPatience, [&] { return requests_.size() >= count; });
    REQUIRE(there);
    return requests_;
  }

 private:
  std::vector<int> statuses_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<net::Request> requests_;
  std::unique_ptr<net::Server> server_;
};

struct Fixture {
  store::testing::TempDir dir;
  std::unique_ptr<store::Store> store = store::testing::open_store(dir.path());
  std::mutex mutex;
  std::condition_variable committed;
  std::uint64_t commits = 0;
  std::atomic<std::int64_t> now = 1'700'000'000'000'000;
  SenderOptions options;
  std::unique_ptr<Sender> sender;

  Fixture() {
    std::ofstream(dir.path() / "secret") << kSecretText << "\n";
    options.policy = {{"127.0.0.1"}, false, "webhooks"};
    options.now_us = [this] { return now.load(); };
    options.log = [](std::string_view, const std::string&) {};
    options.first_retry = std::chrono::milliseconds(1);
    store->add_commit_listener([this] {
      const std::lock_guard lock(mutex);
      ++commits;
      committed.notify_all();
    });
  }
  ~Fixture() { sender.reset(); }

  void start(const std::string& url) {
    auto endpoints =
        must(load_endpoints({{"ops", url, (dir.path() / "secret").string(), {}}}, options.policy));
    sender = must(Sender::start(*store, std::move(endpoints), options));
  }
  void put(const std::string& message, const std::string& payload = "{}") {
    store::testing::write(*store, [&](store::Tx& tx) {
      return store::put_outbox(tx, {.endpoint = "ops",
                                    .message = message,
                                    .type = "promotion.rejected",
                                    .payload = payload,
                                    .due_us = now.load(),
                                    .created_us = now.load()});
    });
    if (sender) sender->wake();
  }
  store::OutboxCounts counts() {
    return store::testing::read(*store,
                                [](store::Reader& reader) { return store::count_outbox(reader, "ops"); });
  }
  /// Waits until what is stored is so; time passes with each commit, so that retries become due.
  void until(const std::function<bool(const store::OutboxCounts&)>& so) {
    std::uint64_t seen = 0;
    for (;;) {
      if (so(counts())) return;
      now += 10'000'000;
      sender->wake();
      std::unique_lock lock(mutex);
      REQUIRE(committed.wait_for(lock, kPatience, [&] { return commits != seen; }));
      seen = commits;
    }
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a message is delivered with a signature that its receiver can check") {
  Receiver receiver({200});
  start(receiver.url());
  put("msg_1", R"({"type":"promotion.rejected"})");
  const auto requests = receiver.wait_for(1);
  CHECK(requests[0].method == "POST");
  CHECK(requests[0].path == "/hook");
  CHECK(requests[0].body == R"({"type":"promotion.rejected"})");
  CHECK(requests[0].header("content-type") == "application/json");
  CHECK(requests[0].header("webhook-id") == "msg_1");
  CHECK(requests[0].header("webhook-timestamp") == "1700000000");
  const auto secret = must(Secret::parse(kSecretText));
  CHECK(requests[0].header("webhook-signature") == secret.sign("msg_1", 1'700'000'000, requests[0].body));
  until([](const auto& counts) { return counts.delivered == 1; });
  CHECK(counts().pending == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "a receiver that fails, or redirects, is asked again under the same id until it takes it") {
  Receiver receiver({500, 302, 429, 204});
  start(receiver.url());
  put("msg_1");
  until([](const auto& counts) { return counts.delivered == 1; });
  const auto requests = receiver.wait_for(4);
  CHECK(requests.size() == 4);
  for (const auto& request : requests) {
    CHECK(request.path == "/hook");
    CHECK(request.header("webhook-id") == "msg_1");
  }
}

TEST_CASE_FIXTURE(Fixture, "after its last attempt a message has failed and the next one is sent") {
  Receiver receiver({500, 500, 500, 200});
  options.max_attempts = 3;
  start(receiver.url());
  put("msg_1");
  until([](const auto& counts) { return counts.failed == 1; });
  CHECK(counts().last_error == "answered 500");
  put("msg_2");
  until([](const auto& counts) { return counts.delivered == 1; });
  CHECK(receiver.wait_for(4).back().header("webhook-id") == "msg_2");
}

TEST_CASE_FIXTURE(Fixture, "410 disables the endpoint and drops what waits for it; enabling it sends again") {
  Receiver receiver({410, 200});
  put("msg_1");
  put("msg_2");
  start(receiver.url());
  until([](const auto& counts) { return counts.dropped == 2; });
  const auto known =
      store::testing::read(*store, [](store::Reader& reader) { return store::find_webhook(reader, "ops"); });
  REQUIRE(known);
  CHECK(known->disabled_us);
  CHECK(receiver.wait_for(1).size() == 1);
  store::testing::write(*store, [](store::Tx& tx) { return store::enable_webhook(tx, "ops"); });
  put("msg_3");
  until([](const auto& counts) { return counts.delivered == 1; });
  CHECK(receiver.wait_for(2).back().header("webhook-id") == "msg_3");
}

TEST_CASE_FIXTURE(Fixture, "what a killed daemon left is sent by the next one") {
  put("msg_1");
  Receiver receiver({200});
  start(receiver.url());
  until([](const auto& counts) { return counts.delivered == 1; });
}

TEST_CASE_FIXTURE(
    Fixture, "a host that is not allowed is refused by name at the start, a private one after resolution") {
  const auto refused = load_endpoints(
      {{"ops", "http://hooks.example/x", (dir.path() / "secret").string(), {}}}, options.policy);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == schema::ErrorCode::forbidden);
  CHECK(refused.error().message.find("webhooks.allowed_hosts") != std::string::npos);
  Receiver receiver({200});
  options.policy = {{}, true, "webhooks"};
  options.max_attempts = 1;
  start(receiver.url());
  put("msg_1");
  until([](const auto& counts) { return counts.failed == 1; });
}

TEST_CASE_FIXTURE(Fixture, "faults of an endpoint's settings name it") {
  const auto secret = (dir.path() / "secret").string();
  for (const EndpointSettings& wrong :
       {EndpointSettings{"ops", "ftp://127.0.0.1/", secret, {}},
        EndpointSettings{"ops", "nonsense", secret, {}},
        EndpointSettings{"ops", "http://127.0.0.1/", secret + "x", {}},
        EndpointSettings{"ops", "http://127.0.0.1/", secret, {"promotion.rejcted"}}}) {
    CAPTURE(wrong.url);
    const auto refused = load_endpoints({wrong}, options.policy);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find("webhook 'ops'") != std::string::npos);
  }
}

TEST_CASE("retries grow fourfold to their longest and spread by the message's id") {
  SenderOptions options;
  std::int64_t before = 0;
  for (std::int64_t attempt = 1; attempt <= 10; ++attempt) {
    const auto wait = retry_after_us(options, attempt, "msg_1");
    CHECK(wait >= before / 2);
    CHECK(wait >= std::min<std::int64_t>(5'000'000LL << (2 * (attempt - 1)), 21'600'000'000));
    CHECK(wait <= 21'600'000'000 + 2'160'000'000);
    before = wait;
  }
  CHECK(retry_after_us(options, 3, "msg_1") == retry_after_us(options, 3, "msg_1"));
  CHECK(retry_after_us(options, 3, "msg_1") != retry_after_us(options, 3, "msg_2"));
}
