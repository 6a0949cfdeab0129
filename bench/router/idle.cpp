#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "bench/router/load.hpp"
#include "bench/router/sockets.hpp"
#include "bench/router/usage.hpp"

namespace driftgate::bench {
namespace {

constexpr std::size_t kReadBytes = 16u << 10;
constexpr int kWarmUpRequests = 200;

/// One request and its answer, waiting for both.
void ask(int fd, RequestText& requests) {
  const auto text = requests.next();
  if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    fail_by_errno("a request cannot be sent");
  AnswerReader reader;
  std::array<char, kReadBytes> bytes;
  auto state = AnswerReader::State::more;
  while (state == AnswerReader::State::more) {
    const auto got = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (got < 0) fail_by_errno("an answer cannot be read");
    if (got == 0) fail("the proxy closed a connection instead of answering");
    state = reader.feed({bytes.data(), static_cast<std::size_t>(got)}, 0, nullptr);
  }
  if (state == AnswerReader::State::broken)
    fail(fmt::format("an answer is not as it must be; its head:\n{}", reader.head()));
}

bool still_open(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

}  // namespace

std::string run_idle(const IdleOptions& options) {
  RequestText requests(Shape::small);
  {
    const auto first = connect_to(options.port);
    for (int i = 0; i < kWarmUpRequests; ++i) ask(first.get(), requests);
  }
  const auto before = resident_kb(options.pids);
  std::vector<base::UniqueFd> connections;
  for (std::uint32_t i = 0; i < options.connections; ++i) connections.push_back(connect_to(options.port));
  // One thread accepts in the order of arrival: once the newest connection is served, it has accepted all.
  ask(connections.back().get(), requests);
  const auto fresh = resident_kb(options.pids);
  for (const auto& connection : connections) ask(connection.get(), requests);
  const auto used = resident_kb(options.pids);
  std::uint32_t closed = 0;
  for (const auto& connection : connections) closed += still_open(connection.get()) ? 0u : 1u;
  const auto bytes_each = [&](std::uint64_t kb) {
    return 1'024.0 * (static_cast<double>(kb) - static_cast<double>(before)) / options.connections;
  };
  return fmt::format(R"({{"connections":{},"closed":{},"before_kb":{},"fresh_kb":{},"used_kb":{},)"
                     R"("fresh_bytes_each":{:.0f},"used_bytes_each":{:.0f}}})",
                     options.connections, closed, before, fresh, used, bytes_each(fresh), bytes_each(used));
}

}  // namespace driftgate::bench
