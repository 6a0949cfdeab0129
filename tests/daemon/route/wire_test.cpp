#include "daemon/route/relay/wire.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/unique_fd.hpp"

using namespace driftgate::route;

namespace {

/// A socket of the event loop and its other end, which the test reads.
class Ends {
 public:
  Ends() : socket(io.get_executor()) {
    std::array<int, 2> pair{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0);
    socket.assign(asio::ip::tcp::v4(), pair[0]);
    other = driftgate::base::UniqueFd(pair[1]);
  }
  std::string read_some() {
    std::vector<char> bytes(1u << 20);
    const auto got = ::recv(other.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    return got > 0 ? std::string(bytes.data(), static_cast<std::size_t>(got)) : std::string();
  }
  asio::io_context io;
  TcpSocket socket;
  driftgate::base::UniqueFd other;
};

}  // namespace

TEST_CASE("pieces are sent as one and in their order, empty ones between them too") {
  Ends ends;
  Pieces pieces{"one ", "", "two ", "three"};
  CHECK(send_now(ends.socket, pieces) == Sent::all);
  CHECK(ends.read_some() == "one two three");
  for (const auto& piece : pieces) CHECK(piece.empty());
}

TEST_CASE("what a full socket does not take is left, to its byte") {
  Ends ends;
  std::string whole;
  for (int i = 0; i < 400'000; ++i) whole += std::to_string(i) + ' ';
  const std::string_view text = whole;
  Pieces pieces{text.substr(0, 10), text.substr(10, 1'000'000), text.substr(1'000'010, 1),
                text.substr(1'000'011)};
  std::string read;
  bool was_full = false;
  for (int tries = 0; tries < 100'000 && read.size() < whole.size(); ++tries) {
    const Sent sent = send_now(ends.socket, pieces);
    REQUIRE(sent != Sent::failed);
    was_full = was_full || sent == Sent::part;
    read += ends.read_some();
  }
  CHECK(was_full);
  CHECK((read == whole));
}

TEST_CASE("a socket whose other end is gone takes nothing") {
  Ends ends;
  ends.other.reset();
  Pieces pieces{"x"};
  CHECK(send_now(ends.socket, pieces) == Sent::failed);
  boost::system::error_code ignored;
  ends.socket.close(ignored);
  CHECK(send_now(ends.socket, pieces) == Sent::failed);
}

TEST_CASE("what has come is taken, and an end is told from nothing yet") {
  Ends ends;
  CHECK(receive_now(ends.socket).arrival == Arrival::nothing);
  const std::string text = "ten bytes.";
  REQUIRE(::send(ends.other.get(), text.data(), text.size(), MSG_NOSIGNAL) == 10);
  auto got = receive_now(ends.socket, 4);
  CHECK(got.arrival == Arrival::bytes);
  CHECK(got.bytes == "ten ");
  CHECK(receive_now(ends.socket).bytes == "bytes.");
  ends.other.reset();
  got = receive_now(ends.socket);
  CHECK(got.arrival == Arrival::end);
  CHECK(got.bytes.empty());
  boost::system::error_code ignored;
  ends.socket.close(ignored);
  CHECK(receive_now(ends.socket).arrival == Arrival::failure);
}

TEST_CASE("the memory of a text is used again, unless there was much of it") {
  const std::string bytes(1'000, 'b');
  std::string first;
  append(first, bytes);
  append(first, "and more");
  CHECK(first == bytes + "and more");
  const auto* const memory = first.data();
  give_back(std::move(first));
  std::string second;
  append(second, bytes);
  CHECK(second == bytes);
  CHECK(second.data() == memory);
  give_back(std::string(1u << 20, 'x'));
  std::string third;
  append(third, bytes);
  CHECK(third.capacity() < 1u << 20);
}
