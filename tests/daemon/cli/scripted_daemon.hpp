#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "captured.hpp"
#include "tests/daemon/net/raw_peer.hpp"

namespace driftgate::cli::test {

/// A server on a loopback port that gives the answers of a table, and a problem where the table has none.
class ScriptedDaemon : public net::test::FunctionHandler {
 public:
  ScriptedDaemon();
  ~ScriptedDaemon() override;

  /// What is answered to "GET /v1/models?limit=500", whose query is decoded.
  void on(const std::string& request, const std::string& body, int status = 200);
  /// The same for a stream of events.
  void stream(const std::string& request, const std::string& events);

  /// Runs a command against it with the token "dg_token".
  Ran run(std::vector<std::string> words);
  [[nodiscard]] std::string url() const;

  /// "GET /v1/models?limit=500" of each request so far, with its body behind it where it has one.
  [[nodiscard]] std::vector<std::string> asked();
  [[nodiscard]] std::vector<net::Request> requests();

 private:
  net::Response reply(const net::Request& request);
  std::mutex mutex_;
  std::map<std::string, net::Response> answers_;
  std::vector<net::Request> requests_;
  std::unique_ptr<net::Server> server_;
};

/// True when `text` holds `part`.
bool has(const std::string& text, const std::string& part);

/// What is in a file.
std::string text_of_file(const std::string& path);

}  // namespace driftgate::cli::test
