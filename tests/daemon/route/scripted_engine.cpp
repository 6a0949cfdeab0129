#include "tests/daemon/route/scripted_engine.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>

#include "daemon/route/http/http_head.hpp"

namespace driftgate::route {
namespace {

/// True when `fd` can be read before the engine ends.
bool readable(int fd, int stop_fd) {
  std::array<pollfd, 2> watched{{{fd, POLLIN, 0}, {stop_fd, POLLIN, 0}}};
  return ::poll(watched.data(), watched.size(), -1) > 0 && watched[1].revents == 0;
}

bool read_some(int fd, int stop_fd, std::string& buffer) {
  if (!readable(fd, stop_fd)) return false;
  std::array<char, 65'536> bytes;
  const auto got = ::recv(fd, bytes.data(), bytes.size(), 0);
  if (got <= 0) return false;
  buffer.append(bytes.data(), static_cast<std::size_t>(got));
  return true;
}

}  // namespace

void ScriptedEngine::Visit::send(const std::string& bytes) {
  if (::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) open_ = false;
}

void ScriptedEngine::Visit::wait_for_close() {
  std::string ignored;
  while (read_some(fd_, stop_fd_, ignored)) {
  }
  open_ = false;
}

ScriptedEngine::ScriptedEngine(Script script)
    : script_(std::move(script)),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool listening = ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                         ::listen(listener_.get(), 256) == 0 &&
                         ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (!listening) throw std::runtime_error("scripted engine cannot listen");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

ScriptedEngine::~ScriptedEngine() {
  ::eventfd_write(stop_.get(), 1);
  acceptor_.join();
  for (auto& thread : threads_) thread.join();
}

std::vector<std::string> ScriptedEngine::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void ScriptedEngine::accept_all() {
  while (readable(listener_.get(), stop_.get())) {
    base::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    ++connections_;
    threads_.emplace_back([this, fd = socket.release()] { serve(base::UniqueFd(fd)); });
  }
}

void ScriptedEngine::serve(base::UniqueFd socket) {
  std::string buffer;
  for (;;) {
    std::size_t end = 0;
    while (scan_head(buffer, 0, end) != HeadScan::complete) {
      if (!read_some(socket.get(), stop_.get(), buffer)) return;
    }
    const auto head_bytes = buffer.substr(0, end);
    const auto head = parse_request_head(head_bytes);
    if (!head) return;
    const auto size = end + head->content_length.value_or(0);
    while (buffer.size() < size) {
      if (!read_some(socket.get(), stop_.get(), buffer)) return;
    }
    Visit visit(socket.get(), stop_.get(), buffer.substr(0, size));
    buffer.erase(0, size);
    {
      const std::lock_guard lock(mutex_);
      seen_.push_back(visit.request());
    }
    ++requests_;
    script_(visit);
    if (!visit.open()) return;
  }
}

HangingEngine::HangingEngine(const std::string& name)
    : engine_([this, name](ScriptedEngine::Visit& visit) {
        if (visit.request().starts_with("GET ")) {
          if (probes_hang_) return visit.wait_for_close();
          return visit.send(answer_with(200, "{}"));
        }
        const bool streams = visit.request().find("\"stream\":true") != std::string::npos;
        const Hang where = where_;
        if (where == Hang::before_head || (where != Hang::never && !streams)) return visit.wait_for_close();
        if (!streams) return visit.send(answer_with(200, completion_of(name)));
        visit.send(stream_head());
        if (where == Hang::after_head) return visit.wait_for_close();
        visit.send(chunk(token_event(name)));
        if (where == Hang::after_token) return visit.wait_for_close();
        visit.send(chunk(kDoneEvent) + kLastChunk);
      }) {}

int HangingEngine::asked() const {
  const auto seen = engine_.seen();
  return static_cast<int>(
      std::ranges::count_if(seen, [](const std::string& request) { return request.starts_with("POST "); }));
}

std::string answer_with(int status, const std::string& body, const std::string& type) {
  return "HTTP/1.1 " + std::to_string(status) + " Status\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string completion_of(const std::string& name) {
  return R"({"id":"x","choices":[{"text":")" + name + R"(","index":0}]})";
}

ScriptedEngine::Script serve_completions(const std::string& name) {
  return [name](ScriptedEngine::Visit& visit) { visit.send(answer_with(200, completion_of(name))); };
}

std::string stream_head() {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
}

std::string chunk(const std::string& data) {
  std::array<char, 20> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
  return size.data() + data + "\r\n";
}

std::string token_event(const std::string& text) {
  return R"(data: {"choices":[{"text":")" + text + "\",\"finish_reason\":null}]}\n\n";
}

}  // namespace driftgate::route
