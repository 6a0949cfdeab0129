#include "daemon/route/worker/router_page.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

TEST_CASE("what a router counted is read from outside, and outlives it when it is killed") {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    RouterPage page("0123456789abcdef", 2);
    page.worker_starts(1);
    page.beat(1);
    page.set_connections(7);
    new InFlight(page.model("tiny"), Served::candidate);  // never ended: in flight when it is killed
    InFlight moved(page.model("tiny"), Served::candidate);
    moved.move_to(Served::incumbent);
    { const InFlight answered(page.model("other"), Served::fallback); }
    const bool told = ::write(ready[1], "x", 1) == 1;
    while (told) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  const auto view = PageView::of_process(child);
  REQUIRE(view);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const auto seen = view->read();
  CHECK(seen.pid == child);
  CHECK(seen.router_id == "0123456789abcdef");
  CHECK_FALSE(seen.ended);
  CHECK(seen.connections == 7);
  REQUIRE(seen.workers.size() == 2);
  CHECK(seen.workers[0].beats == 0);
  CHECK(seen.workers[1].beats == 1);
  CHECK(seen.workers[1].tid == child);
  REQUIRE(seen.models.size() == 2);
  CHECK(seen.models[0].model == "tiny");
  CHECK(seen.models[0].in_flight == std::array<std::uint32_t, 3>{1, 1, 0});
  CHECK(seen.models[1].in_flight == std::array<std::uint32_t, 3>{0, 0, 0});
  CHECK_FALSE(PageView::of_process(child));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("models beyond the page are served and not counted") {
  RouterPage page("life", 1);
  for (std::size_t i = 0; i < kPageModels; ++i) REQUIRE(page.model("m" + std::to_string(i)) != nullptr);
  CHECK(page.model("one more") == nullptr);
  CHECK(page.model("m7") == page.model("m7"));
  InFlight uncounted(page.model("one more"), Served::incumbent);
  uncounted.move_to(Served::candidate);
}

TEST_CASE("telemetry that is not acknowledged stands on the page, and goes when it is") {
  RouterPage page("life", 1);
  Ledger ledger("life");
  ledger.count_on(page);
  const auto* counted = page.model("tiny");
  const Ledger::Time now{};
  const auto first = ledger.begin("tiny", "s", {}, now + std::chrono::seconds(1));
  const auto second = ledger.begin("tiny", "s", {}, now + std::chrono::seconds(1));
  CHECK(counted->open_requests == 2);
  ledger.finish(first, {}, now);
  ledger.close_windows({}, 1'000, now);
  CHECK(counted->open_requests == 1);
  CHECK(counted->kept_requests == 1);
  CHECK(counted->windows == 1);
  CHECK(counted->newest_window == 1);
  ledger.acknowledge(1);
  CHECK(counted->kept_requests == 0);
  CHECK(counted->windows == 0);
  CHECK(counted->newest_window == 1);
}

TEST_CASE("a router counts a request as in flight until its answer is out, by the engine that is asked") {
  std::atomic<bool> fail = false;
  ScriptedEngine incumbent([&](ScriptedEngine::Visit& visit) {
    if (fail) return visit.wait_for_close();
    visit.send(answer_with(200, completion_of("incumbent")));
  });
  ScriptedEngine candidate([&](ScriptedEngine::Visit& visit) { visit.hang_up(); });
  TestRouter router(route_to(incumbent.url(), candidate.url(), 10'000));
  const auto view = PageView::of_process(::getpid());
  REQUIRE(view);
  const auto in_flight = [&] { return view->read().models.at(0).in_flight; };
  TestClient client(router.port());
  CHECK(client.post(tiny_request()).body == completion_of("incumbent"));
  while (in_flight() != std::array<std::uint32_t, 3>{0, 0, 0})
    ::usleep(1'000);  // the client may be first to know
  fail = true;
  TestClient waiting(router.port());
  waiting.send(post_text(tiny_request()));
  while (in_flight()[0] == 0) ::usleep(1'000);  // the candidate hung up, the incumbent is asked
  CHECK(in_flight() == std::array<std::uint32_t, 3>{1, 0, 0});
  waiting.leave();
  while (in_flight()[0] != 0) ::usleep(1'000);
}
