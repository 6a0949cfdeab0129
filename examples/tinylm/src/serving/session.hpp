#pragma once
/// One client connection and the requests on it.

#include <atomic>
#include <cstdint>
#include <string>

#include "examples/tinylm/src/faults.hpp"
#include "examples/tinylm/src/serving/http.hpp"
#include "examples/tinylm/src/serving/response.hpp"
#include "examples/tinylm/src/serving/scheduler.hpp"

namespace tinylm {

/// The state that all sessions share.
struct Service {
  Scheduler& scheduler;
  Faults& faults;
  std::string model_name, kernel, checkpoint_digest;
  std::size_t max_positions;
  std::atomic<std::uint64_t> next_id{0};
  std::atomic<bool> stopping{false};
};

class Session {
 public:
  Session(Socket socket, Service& service) : connection_(std::move(socket)), service_(service) {}
  /// Serves requests until the client closes the connection, is idle for too long, or the service stops.
  void run();
  /// Called from another thread: ends the wait for the next request or, with `hard`, the connection.
  void interrupt(bool hard);
  bool finished() const { return finished_; }

 private:
  /// Returns false when the connection should be closed.
  bool handle(const HttpRequest& request);
  bool complete(const HttpRequest& request);
  bool answer(const HttpRequest& request, Generation& generation);
  bool answer_stream(const HttpRequest& request, Generation& generation);
  bool send(int status, const std::string& body, bool keep_alive);
  bool send_error(const ApiError& error, bool keep_alive);
  std::string models_body() const;
  static std::string props_body();
  ResponseIdentity identity();

  HttpConnection connection_;
  Service& service_;
  std::atomic<bool> finished_{false};
};

}  // namespace tinylm
