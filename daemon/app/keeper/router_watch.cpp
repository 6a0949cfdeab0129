#include "daemon/app/keeper/router_watch.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/unix_socket.hpp"

namespace driftgate::app {
namespace {

constexpr std::chrono::milliseconds kAnswerTime{1'000};
constexpr std::size_t kReadBytes = 4'096;

}  // namespace

schema::Result<RouterWatch> RouterWatch::attach(const std::string& control_path, route::HangLimits limits) {
  auto socket = TRY(route::connect_unix(control_path));
  auto process = TRY(route::ProcessHandle::of_peer(socket.get()));
  return RouterWatch(control_path, limits, std::move(socket), std::move(process));
}

RouterWatch::RouterWatch(std::string control_path, route::HangLimits limits, base::UniqueFd socket,
                         route::ProcessHandle process)
    : control_path_(std::move(control_path)),
      limits_(limits),
      socket_(std::move(socket)),
      process_(std::move(process)),
      judge_(limits) {
  auto page = route::PageView::of_process(process_.pid());
  if (page) page_.emplace(std::move(*page));
}

void RouterWatch::on_readable() {
  std::array<char, kReadBytes> bytes;
  const auto got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return socket_.reset();
  received_.append(bytes.data(), static_cast<std::size_t>(got));
  const auto frame = route::take_frame(received_);
  if (!frame) return socket_.reset();
  if (!*frame) return;
  asked_.reset();
  unanswered_ = 0;
  answered_ = true;
}

std::optional<std::string> RouterWatch::look(Time now) {
  // A daemon that was not scheduled itself knows nothing of how long the router took.
  const bool late = now - last_look_ > limits_.look_every + limits_.late;
  last_look_ = now;
  if (late) {
    asked_.reset();
    unanswered_ = 0;
    socket_.reset();
  }
  if (asked_ && now - *asked_ >= kAnswerTime) {
    ++unanswered_;
    asked_.reset();
    socket_.reset();
  }
  if (!asked_) ask(now);
  return judge_.look(*this, now);
}

/// Asks on a connection of its own: nothing else of the daemon waits on it.
void RouterWatch::ask(Time now) {
  if (!socket_) {
    auto connected = route::connect_unix(control_path_);
    // A hung router's queue of connections may be full: then the question counts as asked.
    if (connected) socket_ = std::move(*connected);
    received_.clear();
  }
  asked_ = now;
  const auto question = route::encode_frame(R"({"op":"capabilities"})");
  if (socket_ && ::send(socket_.get(), question.data(), question.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    socket_.reset();
}

std::optional<route::PageContents> RouterWatch::page() const {
  if (!page_) return std::nullopt;
  return page_->read();
}

std::vector<route::WorkerSign> RouterWatch::workers() {
  return page_ ? page_->workers() : std::vector<route::WorkerSign>{};
}

std::vector<route::ThreadState> RouterWatch::threads() {
  return route::threads_of(process_.pid());
}

int RouterWatch::control_tid() {
  return page_ ? page_->read().control_tid : 0;
}

}  // namespace driftgate::app
