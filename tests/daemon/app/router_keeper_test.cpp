#include "daemon/app/keeper/router_keeper.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <thread>

#include "daemon/route/control/control_place.hpp"
#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "daemon/route/worker/listeners.hpp"
#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::app;
using namespace driftgate::route;

namespace {

constexpr std::chrono::seconds kPatience{120};

/// A keeper over real router processes, and what it told.
class Kept {
 public:
  explicit Kept(bool at_once = true) {
    if (at_once) start();
  }
  ~Kept() {
    keeper_.reset();
    RouterDriver(control()).shutdown();
  }

  void start(bool record = true) {
    SpawnOptions options;
    options.router.control_path = control();
    options.router.spool_dir = folder_.at("spool");
    options.router.state_path = folder_.at("state");
    options.router.window_ms = window_ms;
    options.router.probe_ms = 0;  // engines count what they are asked
    options.router.threads = threads;
    options.router.listen = listen;
    options.log_path = folder_.at("log");
    options.deadline = kPatience;
    options.executable = executable;
    auto started = RouterKeeper::start(std::move(options), [this](std::string_view, const std::string& text) {
      const std::lock_guard lock(mutex_);
      log_.push_back(text);
      told_.notify_all();
    });
    REQUIRE(started);
    keeper_ = std::move(*started);
    if (!record) return;
    keeper_->on_replaced([this](const RouterLoss& loss) {
      drop_note(loss);
      const std::lock_guard lock(mutex_);
      losses_.push_back(loss);
      told_.notify_all();
    });
  }
  /// The daemon dies; the router lives on.
  void stop() { keeper_.reset(); }

  RouterLoss loss(std::size_t count = 1) {
    std::unique_lock lock(mutex_);
    REQUIRE(told_.wait_for(lock, kPatience, [&] { return losses_.size() >= count; }));
    return losses_[count - 1];
  }
  /// Waits for a line of the keeper's log with this text.
  void await_line(const std::string& text) {
    std::unique_lock lock(mutex_);
    REQUIRE(told_.wait_for(lock, kPatience, [&] {
      return std::ranges::any_of(log_, [&](const std::string& line) { return line.contains(text); });
    }));
  }
  /// Reads and acknowledges telemetry as the daemon does, until that many routers were told of as gone.
  std::size_t read_telemetry(std::size_t gone) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    RouterDriver driver(control());
    std::size_t observations = 0;
    while (losses() < gone) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      const auto windows = driver.windows({}, 100);
      for (const auto& window : windows.value_or(std::vector<Window>{})) {
        observations += window.observations.size();
        REQUIRE(driver.acknowledge({window.router_id, window.number}));
      }
      ::usleep(5'000);  // the control socket only answers
    }
    return observations;
  }
  std::size_t losses() {
    const std::lock_guard lock(mutex_);
    return losses_.size();
  }
  RouterKeeper& keeper() { return *keeper_; }
  [[nodiscard]] std::string control() const { return folder_.at("control"); }
  [[nodiscard]] int pid() const { return keeper_->router().info.pid; }
  [[nodiscard]] std::uint16_t port() const { return keeper_->router().info.port; }
  [[nodiscard]] std::string folder(const std::string& name) const { return folder_.at(name); }

  std::string listen = "127.0.0.1:0";
  std::uint32_t threads = 1;
  std::uint32_t window_ms = 20;
  std::string executable = DRIFTGATE_ROUTER_PROCESS;

 private:
  TemporaryFolder folder_;
  std::mutex mutex_;
  std::condition_variable told_;
  std::vector<RouterLoss> losses_;
  std::vector<std::string> log_;
  std::unique_ptr<RouterKeeper> keeper_;
};

/// An engine that holds each request until it is told to answer.
struct Holding {
  std::mutex mutex;
  std::condition_variable changed;
  int waiting = 0;
  bool free = false;
  ScriptedEngine engine{[this](ScriptedEngine::Visit& visit) {
    std::unique_lock lock(mutex);
    ++waiting;
    changed.notify_all();
    changed.wait_for(lock, kPatience, [this] { return free; });
    visit.send(answer_with(200, completion_of("x")));
  }};
  ~Holding() { release(); }
  void wait_for(int count) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, kPatience, [&] { return waiting >= count; }));
  }
  void release() {
    const std::lock_guard lock(mutex);
    free = true;
    changed.notify_all();
  }
};

/// A router as the version before this one had it: it answers who it is, and knows of no listeners and no
/// page.
class OldRouter {
 public:
  OldRouter(const std::string& control, std::uint16_t port) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    pid_ = ::fork();
    if (pid_ == 0) serve(control, port, ready[1]);
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~OldRouter() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] int pid() const { return pid_; }

 private:
  [[noreturn]] static void serve(const std::string& control, std::uint16_t port, int ready) {
    const auto users = bind_listeners("127.0.0.1:" + std::to_string(port), 1);
    const auto listener = listen_unix(control);
    if (!users || !listener || ::write(ready, "x", 1) != 1) ::_exit(1);
    ::fcntl(listener->get(), F_SETFL, 0);
    for (;;) {
      const int peer = ::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      std::thread(answer, peer, port).detach();
    }
  }
  static void answer(int peer, std::uint16_t port) {
    const auto who = "{\"ok\":true,\"pid\":" + std::to_string(::getpid()) +
                     ",\"port\":" + std::to_string(port) +
                     ",\"draining\":false,\"router_id\":\"0123456789abcdef\"}";
    const std::string unknown =
        R"({"ok":false,"error":{"code":"invalid_argument","message":"control request: unknown op 'listeners'"}})";
    std::string buffer;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const auto frame = read_frame(peer, buffer, deadline);
      if (!frame) break;
      const bool known = frame->find("capabilities") != std::string::npos;
      if (!write_all(peer, encode_frame(known ? who : unknown), deadline)) break;
    }
    ::close(peer);
  }
  pid_t pid_ = 0;
};

std::uint32_t in_flight(const RouterLoss& loss, Served arm) {
  REQUIRE(loss.page);
  REQUIRE(loss.page->models.size() == 1);
  return loss.page->models[0].in_flight[static_cast<std::size_t>(arm)];
}

/// Returns once the last thread has stopped: the call that sends the signal does not wait for that.
void stop_all_threads(int pid) {
  ::kill(pid, SIGSTOP);
  const auto stopped = [](const ThreadState& thread) { return thread.state == 'T'; };
  while (!std::ranges::all_of(threads_of(pid), stopped)) ::usleep(1'000);
}

}  // namespace

TEST_CASE("a killed router is replaced on the same socket, and what was in flight in it is told") {
  Kept kept;
  Holding holding;
  RouterDriver driver(kept.control());
  REQUIRE(driver.apply(route_to(holding.engine.url(), "", 0)));
  TestClient broken(kept.port());
  broken.send(post_text(tiny_request()));
  holding.wait_for(1);
  const auto port = kept.port();
  const auto pid = kept.pid();
  ::kill(pid, SIGKILL);
  TestClient early(port);  // while nobody accepts, or already by the next router
  early.send(post_text(tiny_request()));
  const auto loss = kept.loss();
  CHECK(loss.why == "killed");
  CHECK(loss.pid == pid);
  CHECK(loss.replacement_pid == kept.pid());
  CHECK(loss.replacement_pid != pid);
  CHECK(loss.replacement_id == kept.keeper().router().info.router_id);
  CHECK(in_flight(loss, Served::incumbent) == 1);
  CHECK(kept.port() == port);
  CHECK(broken.read_answer().status == 0);
  holding.release();
  CHECK(early.read_answer().body == completion_of("x"));  // by the route that the router kept in its file
  CHECK(kept.keeper().figures().replaced.at("killed") == 1);
  CHECK(kept.keeper().figures().broken_requests == 1);
}

TEST_CASE("a stopped router is killed and replaced, with its unread requests counted") {
  Kept kept;
  ScriptedEngine engine(serve_completions("x"));
  RouterDriver driver(kept.control());
  REQUIRE(driver.apply(route_to(engine.url(), "", 0)));
  TestClient open(kept.port());
  REQUIRE(open.post(tiny_request()).status == 200);
  stop_all_threads(kept.pid());
  open.send(post_text(tiny_request()));  // on a connection that the router had accepted
  TestClient waiting(kept.port());       // in the queue of the socket
  waiting.send(post_text(tiny_request()));
  const auto loss = kept.loss();
  CHECK(loss.why == "hung");
  CHECK(loss.reason.find("state T") != std::string::npos);
  CHECK(loss.unread == 1);
  CHECK(open.read_answer().status == 0);
  CHECK(waiting.read_answer().body == completion_of("x"));
}

TEST_CASE("a router that was told to end is followed by one that knows why") {
  Kept kept;
  REQUIRE(RouterDriver(kept.control()).shutdown());
  CHECK(kept.loss().why == "exited");
}

TEST_CASE("a daemon that adopts a router shares its socket: killed later, it refuses nobody") {
  Kept kept;
  kept.threads = 2;  // of the settings now; the router that lives has one thread and one socket
  const auto port = kept.port();
  const auto pid = kept.pid();
  kept.stop();
  kept.start();
  CHECK(kept.keeper().router().adopted);
  CHECK(kept.pid() == pid);
  ::kill(pid, SIGKILL);
  TestClient early(port);
  CHECK(early.get("/health").status == 200);
  CHECK(kept.loss().why == "killed");
  CHECK(kept.port() == port);
}

TEST_CASE("a new address waits until the router is stopped on purpose: a crash does not move the service") {
  Kept kept;
  const auto port = kept.port();
  const auto other = bind_listeners("127.0.0.1:0", 1);
  REQUIRE(other);
  const auto wanted = listening_port(other->front().get()).value_or(0);
  kept.stop();
  kept.listen = "127.0.0.1:" + std::to_string(wanted);
  kept.start();
  ::kill(kept.pid(), SIGKILL);
  CHECK(kept.loss(1).why == "killed");
  CHECK(kept.port() == port);
  const_cast<driftgate::base::UniqueFd&>(other->front()).reset();
  REQUIRE(RouterDriver(kept.control()).shutdown());
  CHECK(kept.loss(2).why == "exited");
  CHECK(kept.port() == wanted);
}

TEST_CASE("a router that hangs already when the daemon starts is replaced") {
  Kept kept;
  const auto pid = kept.pid();
  kept.stop();
  stop_all_threads(pid);
  kept.start();
  CHECK_FALSE(kept.keeper().router().adopted);
  CHECK(kept.loss().why == "hung");
  CHECK(kept.loss().pid == pid);
}

TEST_CASE("a daemon that dies before it recorded a replacement leaves it to the next one") {
  Kept kept;
  kept.keeper().on_replaced({});
  const auto pid = kept.pid();
  ::kill(pid, SIGKILL);
  while (kept.keeper().figures().replaced.at("killed") == 0) ::usleep(1'000);
  kept.stop();
  kept.start();
  CHECK(kept.loss().pid == pid);
  CHECK(kept.loss().why == "killed");
  CHECK_FALSE(kept.loss().replacement_id.empty());
  kept.stop();
  kept.start();
  CHECK(kept.losses() == 1);  // recorded once
}

TEST_CASE("connections to each of two sockets wait for the next router") {
  Kept kept;
  kept.stop();
  REQUIRE(RouterDriver(kept.control()).shutdown());
  kept.threads = 2;
  kept.start();
  const auto view = PageView::of_process(kept.pid());
  REQUIRE(view);
  CHECK(view->workers().size() == 2);
  const auto port = kept.port();
  ::kill(kept.pid(), SIGKILL);
  std::vector<std::unique_ptr<TestClient>> early;
  for (int i = 0; i < 20; ++i) early.push_back(std::make_unique<TestClient>(port));
  for (auto& client : early) CHECK(client->get("/health").status == 200);
  CHECK(kept.loss().why == "killed");
}

TEST_CASE("a router of the version before is adopted, and replaced by one that shares its socket") {
  std::uint16_t port = 0;
  {
    const auto free = bind_listeners("127.0.0.1:0", 1);
    REQUIRE(free);
    port = listening_port(free->front().get()).value_or(0);
  }
  Kept kept(false);
  kept.listen = "127.0.0.1:" + std::to_string(port);
  const OldRouter old(kept.control(), port);
  kept.start();
  CHECK(kept.keeper().router().adopted);
  CHECK(kept.pid() == old.pid());
  SUBCASE("it is killed") {
    ::kill(old.pid(), SIGKILL);
    CHECK(kept.loss().why == "killed");
  }
  SUBCASE("it hangs") {
    stop_all_threads(old.pid());
    CHECK(kept.loss().why == "hung");
  }
  CHECK(kept.loss().router_id == "0123456789abcdef");
  CHECK_FALSE(kept.loss().page);
  CHECK(kept.port() == port);
  ::kill(kept.pid(), SIGKILL);  // the new one shares its socket: nobody is refused
  TestClient early(port);
  CHECK(early.get("/health").status == 200);
  CHECK(kept.loss(2).page);
}

TEST_CASE("a router is handed over: what it has is answered, nobody is refused, and its telemetry is read") {
  Kept kept;
  Holding holding;
  RouterDriver driver(kept.control());
  const auto route = route_to(holding.engine.url(), holding.engine.url(), 5'000);
  REQUIRE(driver.apply(route));
  TestClient busy(kept.port());
  busy.send(post_text(tiny_request()));
  holding.wait_for(1);
  const auto pid = kept.pid();
  const auto port = kept.port();
  kept.keeper().hand_over_soon();
  kept.await_line("handed over");
  CHECK(kept.pid() != pid);
  CHECK(kept.port() == port);
  CHECK(kept.keeper().figures().retiring == 1);
  // The next one has the routes of the one before, the candidate's share included.
  CHECK(RouterDriver(kept.control()).observe()->front().route == route);
  CHECK_FALSE(RouterDriver(kept.control()).observe()->front().reverted);
  TestClient fresh(port);
  CHECK(fresh.get("/health").status == 200);
  holding.release();
  CHECK(busy.read_answer().body == completion_of("x"));
  CHECK(kept.read_telemetry(1) == 1);
  const auto loss = kept.loss();
  CHECK(loss.why == "handed_over");
  CHECK(loss.pid == pid);
  CHECK(loss.replacement_pid == kept.pid());
  CHECK(broken_requests(loss) == 0);
  CHECK(lost_windows(loss) == 0);
  CHECK(loss.down_ms == 0);
  CHECK(kept.keeper().figures().replaced.at("handed_over") == 1);
  CHECK(sockets_aside(kept.control()).empty());
}

TEST_CASE("a daemon that starts with other settings hands the router over to one that has them") {
  Kept kept;
  const auto pid = kept.pid();
  const auto port = kept.port();
  kept.stop();
  SUBCASE("the same settings") {
    kept.start();
    CHECK(kept.pid() == pid);
    return;
  }
  SUBCASE("other settings") {
    kept.window_ms = 30;
  }
  SUBCASE("another program file") {
    kept.executable = kept.folder("router");
    std::filesystem::copy_file(DRIFTGATE_ROUTER_PROCESS, kept.executable);
  }
  kept.start();
  CHECK(kept.pid() != pid);
  CHECK(kept.port() == port);
  CHECK_FALSE(kept.keeper().router().adopted);
  kept.read_telemetry(1);
  CHECK(kept.loss().why == "handed_over");
  CHECK(kept.loss().pid == pid);
}

TEST_CASE("a router whose follower cannot start goes on in its place") {
  Kept kept(false);
  kept.executable = kept.folder("router");
  std::filesystem::copy_file(DRIFTGATE_ROUTER_PROCESS, kept.executable);
  kept.start();
  const auto pid = kept.pid();
  std::filesystem::remove(kept.executable);
  kept.keeper().hand_over_soon();
  kept.await_line("which goes on");
  CHECK(kept.pid() == pid);
  CHECK(sockets_aside(kept.control()).empty());
  const auto info = RouterDriver(kept.control()).info();
  REQUIRE(info);
  CHECK(info->pid == pid);
  CHECK_FALSE(info->retiring);
  TestClient client(kept.port());
  CHECK(client.get("/health").status == 200);
  ::kill(pid, SIGKILL);  // it is watched as before
  std::filesystem::copy_file(DRIFTGATE_ROUTER_PROCESS, kept.executable);
  CHECK(kept.loss().why == "killed");
}

TEST_CASE("the figures tell that no router serves while none can be started") {
  Kept kept(false);
  kept.executable = kept.folder("router");
  std::filesystem::copy_file(DRIFTGATE_ROUTER_PROCESS, kept.executable);
  kept.start();
  CHECK(kept.keeper().figures().up);
  CHECK(kept.keeper().figures().down_ms == 0);
  std::filesystem::remove(kept.executable);
  ::kill(kept.pid(), SIGKILL);
  kept.await_line("could not be started");
  CHECK_FALSE(kept.keeper().figures().up);
  std::int64_t before = 0;
  for (int grown = 0; grown < 3;) {
    const auto down_ms = kept.keeper().figures().down_ms;
    if (down_ms > before) ++grown;
    before = down_ms;
  }
  std::filesystem::copy_file(DRIFTGATE_ROUTER_PROCESS, kept.executable);
  const auto loss = kept.loss();
  CHECK(kept.keeper().figures().up);
  CHECK(loss.down_ms >= before);
  CHECK(kept.keeper().figures().down_ms == loss.down_ms);
}

TEST_CASE("a router that stepped aside for a daemon which died is followed by the next daemon's") {
  Kept kept;
  const auto pid = kept.pid();
  const auto port = kept.port();
  kept.stop();
  REQUIRE(RouterDriver(kept.control()).retire());  // as far as the daemon came
  TestClient early(port);
  CHECK(early.get("/health").status == 200);
  early.leave();
  kept.start();
  CHECK(kept.pid() != pid);
  CHECK(kept.port() == port);
  kept.read_telemetry(1);
  CHECK(kept.loss().why == "handed_over");
  CHECK(kept.loss().pid == pid);
}

TEST_CASE("a router that is killed while another one follows it is told as killed, with what it had") {
  Kept kept;
  Holding holding;
  RouterDriver driver(kept.control());
  REQUIRE(driver.apply(route_to(holding.engine.url(), "", 0)));
  TestClient busy(kept.port());
  busy.send(post_text(tiny_request()));
  holding.wait_for(1);
  const auto pid = kept.pid();
  kept.keeper().hand_over_soon();
  kept.await_line("handed over");
  ::kill(pid, SIGKILL);
  const auto loss = kept.loss();
  CHECK(loss.why == "killed");
  CHECK(loss.pid == pid);
  CHECK(in_flight(loss, Served::incumbent) == 1);
  CHECK(busy.read_answer().status == 0);
  CHECK(kept.keeper().figures().retiring == 0);
}
