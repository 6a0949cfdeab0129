#include "tests/daemon/route/test_client.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <stdexcept>

#include "daemon/route/http/chunked.hpp"
#include "daemon/route/http/http_head.hpp"

namespace driftgate::route {
namespace {

constexpr int kPatienceMs = 120'000;

}  // namespace

UniqueFd TestClient::narrow_socket() {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int bytes = 4'096;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  return socket;
}

TestClient::TestClient(std::uint16_t port)
    : TestClient(port, UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))) {}

TestClient::TestClient(std::uint16_t port, UniqueFd socket) : socket_(std::move(socket)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("test client cannot connect");
  }
}

void TestClient::send(const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const auto one = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (one <= 0) return;
    sent += static_cast<std::size_t>(one);
  }
}

bool TestClient::read_more() {
  pollfd watched{socket_.get(), POLLIN, 0};
  if (::poll(&watched, 1, kPatienceMs) <= 0) throw std::runtime_error("test client waited too long");
  std::array<char, 65'536> bytes;
  const auto got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (got <= 0) return false;
  received_.append(bytes.data(), static_cast<std::size_t>(got));
  return true;
}

bool TestClient::closed() {
  while (read_more()) {
  }
  return received_.empty();
}

bool TestClient::read_until(const std::string& text) {
  while (received_.find(text) == std::string::npos) {
    if (!read_more()) return false;
  }
  return true;
}

std::string TestClient::read_head() {
  std::size_t end = 0;
  while (scan_head(received_, 0, end) != HeadScan::complete) {
    if (!read_more()) return {};
  }
  auto head = received_.substr(0, end);
  received_.erase(0, end);
  return head;
}

bool TestClient::reads_before(TestClient& other) {
  std::array<pollfd, 2> watched{{{socket_.get(), POLLIN, 0}, {other.socket_.get(), POLLIN, 0}}};
  if (::poll(watched.data(), watched.size(), kPatienceMs) <= 0)
    throw std::runtime_error("test client waited too long");
  return watched[0].revents != 0;
}

TestClient::Answer TestClient::read_answer() {
  Answer answer;
  std::size_t end = 0;
  while (scan_head(received_, 0, end) != HeadScan::complete) {
    if (!read_more()) return answer;
  }
  answer.head = received_.substr(0, end);
  received_.erase(0, end);
  const auto head = parse_response_head(answer.head);
  if (!head) return answer;
  answer.status = head->status;
  if (!head->may_have_body()) {
    answer.complete = true;
    return answer;
  }
  if (head->chunked) {
    ChunkedDecoder decoder;
    for (;;) {
      received_.erase(0, decoder.feed(received_, answer.body));
      answer.complete = decoder.done();
      if (decoder.done() || decoder.failed() || !read_more()) return answer;
    }
  }
  const auto size = head->content_length.value_or(SIZE_MAX);
  while (received_.size() < size && read_more()) {
  }
  answer.complete = !head->content_length || received_.size() >= size;
  answer.body = received_.substr(0, size);
  received_.erase(0, answer.body.size());
  return answer;
}

std::string post_text(const std::string& body, const std::string& fields, const std::string& path) {
  return "POST " + path + " HTTP/1.1\r\nHost: router\r\nContent-Type: application/json\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TestClient::Answer TestClient::post(const std::string& body, const std::string& fields,
                                    const std::string& path) {
  send(post_text(body, fields, path));
  return read_answer();
}

TestClient::Answer TestClient::get(const std::string& path) {
  send("GET " + path + " HTTP/1.1\r\nHost: router\r\n\r\n");
  return read_answer();
}

}  // namespace driftgate::route
