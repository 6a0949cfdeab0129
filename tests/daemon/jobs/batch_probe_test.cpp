#include "daemon/jobs/engines/batch_probe.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "raw_peer.hpp"

using namespace driftgate;
using namespace driftgate::jobs;

namespace {

/// An engine whose answers to prompts that begin with "odd" depend on whether it has company.
class Engine : public net::test::FunctionHandler {
 public:
  Engine() {
    answer = [this](const net::Request& request) { return complete(request); };
    net::ServerOptions options;
    options.worker_threads = kProbeBatch;
    server_ = std::move(*net::Server::start(options, *this));
  }
  ~Engine() override { server_->stop(std::chrono::seconds(1)); }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }

  bool broken = false, empty = false;
  bool strict = false;  ///< refuses members that it does not know
  std::size_t most_at_once = 0;
  std::vector<nlohmann::json> bodies;

 private:
  net::Response complete(const net::Request& request) {
    const auto body = nlohmann::json::parse(request.body);
    bool alone = false;
    {
      std::unique_lock lock(mutex_);
      bodies.push_back(body);
      ++now_;
      most_at_once = std::max(most_at_once, now_);
      came_.notify_all();
      // The first pass is over once every prompt was asked; from then on each waits for company.
      alone = bodies.size() <= 20;
      if (!alone) came_.wait_for(lock, std::chrono::seconds(5), [this] { return most_at_once > 1; });
    }
    net::Response response;
    const auto prompt = body["prompt"].get<std::string>();
    const bool varies = prompt.starts_with("odd") && !alone;
    if (strict && body.contains("cache_salt")) {
      response.status = 422;
    } else if (broken || prompt == "refused") {
      response.status = 500;
    } else if (empty) {
      response.body = R"({"object":"text_completion"})";
    } else {
      nlohmann::json choice{{"text", varies ? "ax" : "ab"}};
      if (body.contains("logprobs")) {
        const auto tokens = varies ? std::vector<std::string>{"a", "x"} : std::vector<std::string>{"a", "b"};
        choice["logprobs"] = {{"tokens", tokens}, {"token_logprobs", {-0.5, -0.5}}};
      }
      response.body = nlohmann::json{{"choices", nlohmann::json::array({choice})}}.dump();
    }
    const std::scoped_lock lock(mutex_);
    --now_;
    return response;
  }

  std::mutex mutex_;
  std::condition_variable came_;
  std::size_t now_ = 0;
  std::unique_ptr<net::Server> server_;
};

GreedyRequest asking(const std::string& prompt) {
  return {"/v1/completions", {{"prompt", prompt}, {"temperature", 0}, {"max_tokens", kProbeTokens}}};
}

std::vector<GreedyRequest> requests() {
  std::vector<GreedyRequest> all;
  for (int i = 0; i < 20; ++i) all.push_back(asking((i < 3 ? "odd " : "even ") + std::to_string(i)));
  all[19] = asking("refused");
  return all;
}

void nothing(std::size_t, std::size_t) {}

}  // namespace

TEST_CASE("prompts whose greedy tokens change with company are told from those that do not") {
  Engine engine;
  std::size_t last = 0, total = 0;
  const auto probe =
      probe_batches(engine.url(), "m", requests(), 1, {}, [&](std::size_t done, std::size_t all) {
        last = done;
        total = all;
      });
  REQUIRE(probe.has_value());
  REQUIRE(probe->variant.size() == 20);
  for (std::size_t i = 0; i < 19; ++i) {
    CAPTURE(i);
    CHECK(probe->variant[i] == (i < 3));
  }
  CHECK(probe->variant[19] == std::nullopt);
  // The requests ask for no tokens, so nothing is known of where the answers differ.
  CHECK(std::ranges::none_of(probe->agreement, [](const auto& one) { return one.has_value(); }));
  REQUIRE(!probe->notes.empty());
  CHECK(probe->notes[0].find("answered 500 to a greedy request to /v1/completions") != std::string::npos);
  CHECK(engine.most_at_once > 1);
  CHECK(engine.most_at_once <= kProbeBatch);
  CHECK(last == 40);
  CHECK(total == 40);
  CHECK(engine.bodies[0]["temperature"] == 0);
  CHECK(engine.bodies[0]["max_tokens"] == kProbeTokens);
  CHECK(engine.bodies[0]["model"] == "m");
}

TEST_CASE("where requests ask for tokens, how far the answers agree alone and in a batch is known of each") {
  Engine engine;
  auto asked = requests();
  for (GreedyRequest& request : asked) request.body["logprobs"] = 1;
  const auto probe = probe_batches(engine.url(), "m", asked, 1, {}, nothing);
  REQUIRE(probe.has_value());
  REQUIRE(probe->agreement.size() == 20);
  for (std::size_t i = 0; i < 19; ++i) {
    CAPTURE(i);
    REQUIRE(probe->agreement[i].has_value());
    CHECK(*probe->agreement[i] == stages::GreedyAgreement{i < 3 ? 1U : 2U, 2});
  }
  CHECK_FALSE(probe->agreement[19].has_value());
}

TEST_CASE("no request finds the engine's prompt cache warm, and each pass has an order of its own") {
  Engine engine;
  REQUIRE(probe_batches(engine.url(), "m", requests(), 1, {}, nothing).has_value());
  REQUIRE(engine.bodies.size() == 40);
  std::set<std::string> salts;
  std::vector<std::string> alone, together;
  for (std::size_t i = 0; i < 40; ++i) {
    CHECK(engine.bodies[i]["cache_prompt"] == false);
    salts.insert(engine.bodies[i]["cache_salt"].get<std::string>());
    (i < 20 ? alone : together).push_back(engine.bodies[i]["prompt"].get<std::string>());
  }
  CHECK(salts.size() == 40);
  CHECK(alone != together);
  std::ranges::sort(alone);
  std::ranges::sort(together);
  CHECK(alone == together);
}

TEST_CASE("an engine that refuses to have its cache switched off is asked without that, and it is said") {
  Engine engine;
  engine.strict = true;
  const auto probe = probe_batches(engine.url(), "m", {asking("a"), asking("b")}, 1, {}, nothing);
  REQUIRE(probe.has_value());
  CHECK(probe->variant == std::vector<std::optional<bool>>(2, false));
  REQUIRE(probe->notes.size() == 1);
  CHECK(probe->notes[0].find("the engine refused cache_prompt and cache_salt") != std::string::npos);
  CHECK(engine.bodies.size() == 5);  // one refusal, then each request once in either pass
}

TEST_CASE("an engine that only fails is not asked for every prompt, and nothing is known of any") {
  Engine engine;
  engine.broken = true;
  const std::vector<GreedyRequest> many(200, asking("even"));
  const auto probe = probe_batches(engine.url(), "m", many, 1, {}, nothing);
  REQUIRE(probe.has_value());
  CHECK(std::ranges::all_of(probe->variant, [](const auto& one) { return !one.has_value(); }));
  CHECK(engine.bodies.size() < 100);
}

TEST_CASE("answers without a choice are no answers, however equal they are") {
  Engine engine;
  engine.empty = true;
  const auto probe = probe_batches(engine.url(), "m", {asking("a"), asking("b")}, 1, {}, nothing);
  REQUIRE(probe.has_value());
  CHECK(probe->variant == std::vector<std::optional<bool>>(2));
  REQUIRE(!probe->notes.empty());
  CHECK(probe->notes[0].find("without a choice") != std::string::npos);
}

TEST_CASE("a host that the settings do not allow is refused") {
  const auto probe = probe_batches("http://192.0.2.1:80", "m", {asking("a")}, 1, {}, nothing);
  REQUIRE_FALSE(probe.has_value());
  CHECK(probe.error().code == schema::ErrorCode::forbidden);
}
