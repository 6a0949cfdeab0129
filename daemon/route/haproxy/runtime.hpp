#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/route/haproxy/maps.hpp"
#include "schema/error.hpp"

namespace driftgate::route::haproxy {

/// What HAProxy has counted of a backend, or how it judges a server.
struct Statistics {
  std::uint64_t current = 0;  ///< requests that are not over
  std::string status;         ///< "UP", "DOWN", "UP 1/2" …
};

/// HAProxy's runtime API over its Unix socket, a connection for each command. Blocks.
class Runtime {
 public:
  static constexpr std::size_t kMaxAnswerBytes = 16u << 20;
  /// Of one command with its payload: HAProxy reads it into one buffer, 16 KB at least.
  static constexpr std::size_t kMaxCommandBytes = 8u << 10;

  /// `deadline` of each command.
  explicit Runtime(std::string path, std::chrono::milliseconds deadline = std::chrono::milliseconds(400))
      : path_(std::move(path)), deadline_(deadline) {}

  /// The answer to one line of commands, which `;` may separate. `unavailable` when nobody listens,
  /// `deadline_exceeded` when HAProxy is silent.
  [[nodiscard]] schema::Result<std::string> ask(std::string_view command) const;
  /// A command whose answer is empty, or begins with `praise`, when it succeeded; `conflict` with HAProxy's
  /// words otherwise.
  schema::Result<void> tell(std::string_view command, std::string_view praise = {}) const;

  [[nodiscard]] schema::Result<std::vector<MapEntry>> show_map(const std::string& file) const;
  /// Replaces all entries of a map at once: no request sees a part of them. `conflict` when another writer
  /// has committed a later version meanwhile.
  schema::Result<void> replace_map(const std::string& file, const std::vector<MapEntry>& entries) const;
  /// A variable of the process, such as 1795420372874285.
  [[nodiscard]] schema::Result<std::uint64_t> number(const std::string& variable) const;
  /// Statistics by "BACKEND/SERVER", or "BACKEND/BACKEND" for the sum of its servers.
  [[nodiscard]] schema::Result<std::map<std::string, Statistics>> statistics(
      const std::vector<std::string>& backends) const;
  /// Log lines that the process could not send to whatever receives them.
  [[nodiscard]] schema::Result<std::uint64_t> dropped_logs() const;
  /// gpc0 of each key of a stick table.
  [[nodiscard]] schema::Result<std::map<std::string, std::uint32_t>> counters(const std::string& table) const;

 private:
  const std::string path_;
  const std::chrono::milliseconds deadline_;
};

/// Parts of Runtime that read HAProxy's answers.
[[nodiscard]] std::map<std::string, Statistics> parse_statistics(std::string_view shown);
[[nodiscard]] std::map<std::string, std::uint32_t> parse_counters(std::string_view shown);

}  // namespace driftgate::route::haproxy
