#pragma once
// The real `tinylm serve` as a child process, and a client for it.

#include <sys/types.h>

#include <string>
#include <vector>

#include "examples/tinylm/src/serving/http.hpp"
#include "tests/examples/tinylm/fixtures.hpp"

namespace tinylm_tests {

class ServerProcess {
 public:
  explicit ServerProcess(const std::vector<std::string>& arguments);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  tinylm::Socket connect() const;
  /// One request on a connection of its own.
  tinylm::HttpResponse request(const std::string& method, const std::string& path,
                               const std::string& body) const;
  tinylm::HttpResponse complete(const std::string& body) const {
    return request("POST", "/v1/completions", body);
  }
  /// Sends SIGTERM and returns the exit status.
  int terminate();
  std::uint16_t port() const { return port_; }

 private:
  TemporaryFolder folder_;
  pid_t child_ = -1;
  std::uint16_t port_ = 0;
};

/// Runs the program to its end; returns its exit status.
int run_tinylm(const std::vector<std::string>& arguments);

/// One request as bytes.
std::string request_bytes(const std::string& method, const std::string& path, const std::string& body);

}  // namespace tinylm_tests
