#pragma once

#include <cstdint>
#include <string>

#include "daemon/route/control/unique_fd.hpp"

namespace driftgate::route {

/// A raw client connection to a router on loopback. Reads give up after a bound of 20 s.
class TestClient {
 public:
  explicit TestClient(std::uint16_t port);

  struct Answer {
    int status = 0;  ///< 0: the connection ended before a head
    std::string head;
    std::string body;       ///< without chunk framing
    bool complete = false;  ///< its framing was closed in good order
  };

  void send(const std::string& bytes);
  Answer read_answer();
  /// Only the head of an answer, as it follows a HEAD request.
  std::string read_head();
  /// Waits until one of the two clients can read something: true when this one can.
  bool reads_before(TestClient& other);
  /// Sends a POST with a JSON body and reads the answer.
  Answer post(const std::string& body, const std::string& fields = {},
              const std::string& path = "/v1/completions");
  Answer get(const std::string& path);
  /// True when the router closed the connection (and nothing more came).
  bool closed();
  /// Reads what comes until `text` is in it.
  bool read_until(const std::string& text);
  /// Closes at once.
  void leave() { socket_.reset(); }
  /// Makes the receive window small, for a client that does not read.
  static UniqueFd narrow_socket();
  explicit TestClient(std::uint16_t port, UniqueFd socket);

 private:
  bool read_more();
  UniqueFd socket_;
  std::string received_;
};

/// The text of a request as post() sends it.
[[nodiscard]] std::string post_text(const std::string& body, const std::string& fields = {},
                                    const std::string& path = "/v1/completions");

}  // namespace driftgate::route
