#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/unique_fd.hpp"

namespace driftgate::route {

/// An engine on loopback whose answers a test writes byte by byte. One thread for each connection.
class ScriptedEngine {
 public:
  /// One connection with one request on it, for the script to answer.
  class Visit {
   public:
    Visit(int fd, int stop_fd, std::string request)
        : request_(std::move(request)), fd_(fd), stop_fd_(stop_fd) {}
    /// Head and body as they came.
    [[nodiscard]] const std::string& request() const { return request_; }
    void send(const std::string& bytes);
    /// Ends the connection after this request.
    void hang_up() { open_ = false; }
    /// Waits until the other side leaves, or the engine ends.
    void wait_for_close();
    [[nodiscard]] bool open() const { return open_; }

   private:
    const std::string request_;
    const int fd_;
    const int stop_fd_;
    bool open_ = true;
  };
  using Script = std::function<void(Visit&)>;

  explicit ScriptedEngine(Script script);
  ~ScriptedEngine();

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int requests() const { return requests_; }
  [[nodiscard]] int connections() const { return connections_; }
  [[nodiscard]] std::vector<std::string> seen() const;

 private:
  void accept_all();
  void serve(base::UniqueFd socket);

  const Script script_;
  base::UniqueFd listener_;
  base::UniqueFd stop_;
  std::uint16_t port_ = 0;
  std::atomic<int> requests_ = 0;
  std::atomic<int> connections_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> seen_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

/// Where an engine stops.
enum class Hang : std::uint8_t {
  never,
  before_head,  ///< it takes the request and says nothing
  after_head,   ///< of a stream
  after_token,  ///< of a stream: its first one
};

/// A completion engine that a test hangs and revives: what is asked while it hangs is never answered. It
/// answers GET /health as well, and hangs there on its own.
class HangingEngine {
 public:
  explicit HangingEngine(const std::string& name);
  /// From the next request on.
  void hang(Hang where) { where_ = where; }
  void hang_probes(bool hangs) { probes_hang_ = hangs; }
  [[nodiscard]] std::string url() const { return engine_.url(); }
  /// Completions that it was asked for.
  [[nodiscard]] int asked() const;

 private:
  std::atomic<Hang> where_ = Hang::never;
  std::atomic<bool> probes_hang_ = false;
  ScriptedEngine engine_;
};

/// A whole answer with Content-Length.
[[nodiscard]] std::string answer_with(int status, const std::string& body,
                                      const std::string& type = "application/json");
/// A completion whose text names the engine.
[[nodiscard]] std::string completion_of(const std::string& name);
/// A script that gives every request that completion.
[[nodiscard]] ScriptedEngine::Script serve_completions(const std::string& name);
/// The head of a chunked stream, one chunk, and the end of the chunks.
[[nodiscard]] std::string stream_head();
[[nodiscard]] std::string chunk(const std::string& data);
inline const std::string kLastChunk = "0\r\n\r\n";
/// An event with one token.
[[nodiscard]] std::string token_event(const std::string& text);
inline const std::string kDoneEvent = "data: [DONE]\n\n";

}  // namespace driftgate::route
