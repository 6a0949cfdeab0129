#include "daemon/route/control/control_server.hpp"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/route/control/control.hpp"
#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/unix_socket.hpp"

namespace driftgate::route {
namespace {

constexpr std::chrono::seconds kAnswerDeadline{5};
constexpr std::size_t kReadBytes = 65'536;

}  // namespace

ControlServer::ControlServer(RouterCore& core, std::function<void()> on_shutdown, base::UniqueFd listener,
                             base::UniqueFd wake)
    : core_(core),
      on_shutdown_(std::move(on_shutdown)),
      listener_(std::move(listener)),
      wake_(std::move(wake)),
      thread_([this] {
        core_.page.control_starts();
        run();
      }) {}

ControlServer::~ControlServer() {
  if (::eventfd_write(wake_.get(), 1) != 0) spdlog::error("router: cannot wake the control thread");
  thread_.join();
}

void ControlServer::run() {
  for (;;) {
    std::vector<pollfd> watched{{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& peer : peers_) watched.push_back({peer.socket.get(), POLLIN, 0});
    if (::poll(watched.data(), watched.size(), -1) < 0) {
      if (errno == EINTR) continue;
      spdlog::critical("router: polling the control socket failed");
      return;
    }
    if (watched[0].revents != 0) return;
    std::vector<Peer> kept;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const bool open = watched[i + 2].revents == 0 || serve(peers_[i]);
      if (open) kept.push_back(std::move(peers_[i]));
    }
    peers_ = std::move(kept);
    if (std::exchange(disconnect_, false)) peers_.clear();
    if (watched[1].revents != 0) accept_one();
  }
}

void ControlServer::accept_one() {
  base::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  if (peers_.size() >= kMaxConnections) {
    spdlog::warn("router: more than {} control connections; one was refused", kMaxConnections);
    return;
  }
  peers_.push_back({std::move(socket), {}});
}

/// Closes connections that were made by the path which the socket had before.
void ControlServer::drop_waiting() {
  disconnect_ = true;
  for (;;) {
    const base::UniqueFd waiting(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!waiting) return;
  }
}

/// Reads what is there and answers every whole frame; false when the connection is over.
bool ControlServer::serve(Peer& peer) {
  std::array<char, kReadBytes> bytes;
  const auto got = ::recv(peer.socket.get(), bytes.data(), bytes.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  peer.buffer.append(bytes.data(), static_cast<std::size_t>(got));
  for (;;) {
    auto frame = take_frame(peer.buffer);
    if (!frame) {
      spdlog::warn("router: {}", frame.error().describe());
      return false;
    }
    if (!*frame) return true;
    ControlEffects effects;
    const auto answer = encode_frame(answer_control(core_, **frame, effects));
    if (effects.disconnect) drop_waiting();
    const auto deadline = std::chrono::steady_clock::now() + kAnswerDeadline;
    const auto written = effects.descriptors.empty()
                             ? write_all(peer.socket.get(), answer, deadline)
                             : send_descriptors(peer.socket.get(), answer, effects.descriptors);
    if (effects.stop) on_shutdown_();
    if (!written) return false;
  }
}

schema::Result<std::unique_ptr<ControlServer>> ControlServer::start(RouterCore& core,
                                                                    std::function<void()> on_shutdown) {
  auto listener = TRY(listen_unix(core.options.control_path));
  core.place.listens();
  base::UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return schema::fail(schema::ErrorCode::io, "router: cannot make an eventfd");
  return std::unique_ptr<ControlServer>(
      new ControlServer(core, std::move(on_shutdown), std::move(listener), std::move(wake)));
}

}  // namespace driftgate::route
