#include "examples/tinylm/src/serving/server.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "examples/tinylm/src/capture.hpp"
#include "examples/tinylm/src/serving/session.hpp"

namespace tinylm {
namespace {

constexpr Milliseconds kStopPatience{5'000};

// Sessions and their threads. Sessions that have ended are removed when the next connection arrives.
class Sessions {
 public:
  explicit Sessions(Service& service) : service_(service) {}

  void add(Socket socket) {
    std::erase_if(entries_, [](const Entry& entry) { return entry.session->finished(); });
    if (entries_.size() >= kMaxConnections) {
      const ApiError error{503, "server_error", "overloaded", "too many connections: retry after a moment"};
      static_cast<void>(
          socket.send_all(http_response(503, "application/json", error_body(error), false), Milliseconds{0}));
      return;
    }
    auto session = std::make_unique<Session>(std::move(socket), service_);
    Session& running = *session;
    entries_.push_back({std::move(session), std::jthread([this, &running] {
                          try {
                            running.run();
                          } catch (const std::exception& error) {
                            std::fprintf(stderr, "tinylm: a session ended by an unexpected exception: %s\n",
                                         error.what());
                            running.interrupt(true);
                          }
                          const std::lock_guard lock(mutex_);
                          ended_.notify_all();
                        })});
  }

  // Waits for running requests; connections that are still open at the deadline are closed.
  void stop() {
    service_.stopping = true;
    for (const Entry& entry : entries_) entry.session->interrupt(false);
    {
      std::unique_lock lock(mutex_);
      ended_.wait_for(lock, kStopPatience, [&] {
        return std::ranges::all_of(entries_, [](const Entry& entry) { return entry.session->finished(); });
      });
    }
    service_.scheduler.stop();
    for (const Entry& entry : entries_) entry.session->interrupt(true);
    entries_.clear();
  }

 private:
  struct Entry {
    std::unique_ptr<Session> session;
    std::jthread thread;
  };

  Service& service_;
  std::list<Entry> entries_;
  std::mutex mutex_;
  std::condition_variable ended_;
};

// Blocks the stop signals in every thread and makes them readable through a descriptor.
int stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

Result<void> announce(std::uint16_t port, const ServeOptions& options, const std::string& kernel) {
  std::printf("tinylm: kernel %s listens on http://%s:%u\n", kernel.c_str(), options.host.c_str(), port);
  std::fflush(stdout);
  if (options.port_file.empty()) return {};
  const std::string partial = options.port_file + ".partial";
  std::ofstream(partial) << port << '\n';
  if (std::rename(partial.c_str(), options.port_file.c_str()) != 0)
    return fail("cannot write " + options.port_file);
  return {};
}

}  // namespace

Result<void> serve(Engine engine, const std::string& checkpoint_digest, const ServeOptions& options) {
  const int signals = stop_signals();
  if (signals < 0) return fail("cannot watch for signals");
  auto listener = Socket::listen(options.host, options.port);
  if (!listener) return std::unexpected(listener.error());
  const auto port = listener->local_port();
  if (!port) return std::unexpected(port.error());
  const std::string kernel = kernel_name(engine);
  const std::size_t max_positions = engine.config().max_positions;
  Scheduler scheduler(std::vector<Engine>(options.threads, engine), options.limits);
  Faults faults(options.faults);
  Service service{scheduler, faults, options.model_name, kernel, checkpoint_digest, max_positions};
  Sessions sessions(service);
  auto announced = announce(*port, options, kernel);
  if (!announced) return announced;
  Result<void> outcome;
  while (true) {
    auto socket = listener->accept(signals);
    if (!socket) outcome = std::unexpected(socket.error());
    if (!socket || !socket->open()) break;
    sessions.add(std::move(*socket));
  }
  sessions.stop();
  ::close(signals);
  return outcome;
}

}  // namespace tinylm
