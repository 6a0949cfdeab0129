#include "daemon/route/control/control_server.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/route/control/control.hpp"
#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/unix_socket.hpp"

namespace driftgate::route {
namespace {

constexpr std::chrono::seconds kAnswerDeadline{5};
constexpr std::size_t kReadBytes = 65'536;

struct Peer {
  base::UniqueFd socket;
  std::string buffer;
};

class PollServer final : public ControlServer {
 public:
  PollServer(RouterCore& core, std::function<void()> on_shutdown, base::UniqueFd listener,
             base::UniqueFd wake)
      : core_(core),
        on_shutdown_(std::move(on_shutdown)),
        listener_(std::move(listener)),
        wake_(std::move(wake)),
        thread_([this] {
          core_.page.control_starts();
          run();
        }) {}

  ~PollServer() override {
    const std::uint64_t one = 1;
    if (::write(wake_.get(), &one, sizeof one) < 0) spdlog::error("router: cannot wake the control thread");
    thread_.join();
    ::unlink(core_.options.control_path.c_str());
  }

 private:
  void run() {
    for (;;) {
      std::vector<pollfd> watched{{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const auto& peer : peers_) watched.push_back({peer.socket.get(), POLLIN, 0});
      if (::poll(watched.data(), watched.size(), -1) < 0) {
        if (errno == EINTR) continue;
        spdlog::critical("router: control poll failed");
        return;
      }
      if (watched[0].revents != 0) return;
      std::vector<Peer> kept;
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        const bool open = watched[i + 2].revents == 0 || serve(peers_[i]);
        if (open) kept.push_back(std::move(peers_[i]));
      }
      peers_ = std::move(kept);
      if (watched[1].revents != 0) accept_one();
    }
  }

  void accept_one() {
    base::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (peers_.size() >= kMaxConnections) {
      spdlog::warn("router: over {} control connections, one is refused", kMaxConnections);
      return;
    }
    peers_.push_back({std::move(socket), {}});
  }

  /// Reads what is there and answers every whole frame; false when the connection is over.
  bool serve(Peer& peer) {
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
      const auto deadline = std::chrono::steady_clock::now() + kAnswerDeadline;
      const auto written = effects.descriptors.empty()
                               ? write_all(peer.socket.get(), answer, deadline)
                               : send_descriptors(peer.socket.get(), answer, effects.descriptors);
      if (effects.stop) on_shutdown_();
      if (!written) return false;
    }
  }

  RouterCore& core_;
  const std::function<void()> on_shutdown_;
  const base::UniqueFd listener_;
  const base::UniqueFd wake_;
  std::vector<Peer> peers_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace

schema::Result<std::unique_ptr<ControlServer>> ControlServer::start(RouterCore& core,
                                                                    std::function<void()> on_shutdown) {
  const auto& path = core.options.control_path;
  auto listener = TRY(listen_unix(path));
  base::UniqueFd listening(listener);
  base::UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return schema::fail(schema::ErrorCode::io, "router: cannot make an eventfd");
  return std::make_unique<PollServer>(core, std::move(on_shutdown), std::move(listening), std::move(wake));
}

}  // namespace driftgate::route
