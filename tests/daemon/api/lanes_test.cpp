#include <doctest/doctest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "daemon/net/http_client.hpp"
#include "daemon/net/server.hpp"
#include "fixture.hpp"

using namespace driftgate;
using namespace driftgate::api;
using api::test::Fixture;

namespace {

net::ClientRequest post(const std::string& target, const std::string& body, const std::string& type) {
  return {.method = "POST",
          .target = target,
          .headers = {{"Authorization", "Bearer dg_viewer,operator"}, {"Content-Type", type}},
          .body = body};
}

}  // namespace

TEST_CASE("an abort is answered while what-ifs hold every thread for long work and fill its queue") {
  Fixture f;
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  bool let_go = false;
  f.service.during_what_if = [&](const std::stop_token&) {
    std::unique_lock lock(mutex);
    ++running;
    changed.notify_all();
    changed.wait(lock, [&] { return let_go; });
  };
  const net::ServerOptions options{.worker_threads = 1, .long_threads = 2, .long_queue = 2};
  auto server = net::Server::start(options, f.api);
  REQUIRE(server);
  const auto send = [&](const net::ClientRequest& request) {
    return net::HttpClient(net::Url{"127.0.0.1", (*server)->port(), "/"}, {}).send(request);
  };
  const auto what_if = post("/v1/promotions/pr-1/what-if", "kind: KernelContract\n", "application/yaml");
  std::vector<std::thread> askers;
  std::vector<int> statuses;
  const auto ask = [&](int times) {
    for (int i = 0; i < times; ++i) {
      askers.emplace_back([&] {
        const auto answer = send(what_if);
        const std::lock_guard guard(mutex);
        statuses.push_back(answer ? answer->status : 0);
        changed.notify_all();
      });
    }
  };
  ask(2);
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return running == 2; });
  }
  ask(4);  // two of them wait, and the others are refused
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return statuses.size() == 2; });
    CHECK(statuses == std::vector<int>{503, 503});
  }
  const auto aborted = send(post("/v1/promotions/pr-1/abort", R"({"reason":"enough"})", "application/json"));
  REQUIRE(aborted);
  CHECK(aborted->status == 200);
  const auto rolled_back =
      send(post("/v1/promotions/pr-1/rollback", R"({"reason":"enough"})", "application/json"));
  REQUIRE(rolled_back);
  CHECK(rolled_back->status == 200);
  {
    const std::lock_guard lock(mutex);
    CHECK(running == 2);
    let_go = true;
    changed.notify_all();
  }
  for (auto& asker : askers) asker.join();
  CHECK(std::ranges::count(statuses, 200) == 4);
}

TEST_CASE("long work and emergency actions have threads of their own, and nothing else does") {
  std::set<std::string_view> urgent, long_running;
  for (const Route& route : routes()) {
    if (route.lane == net::Lane::urgent) urgent.insert(route.id);
    if (route.lane == net::Lane::long_running) long_running.insert(route.id);
  }
  CHECK(urgent == std::set<std::string_view>{"abortPromotion", "rollbackPromotion"});
  CHECK(long_running ==
        std::set<std::string_view>{"exportEvidence", "explainContract", "getBundle", "makeBackup", "whatIf"});
}
