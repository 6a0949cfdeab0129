#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace driftgate::cli {

/// Whether a program could listen on a TCP port of a numeric address now. True for what is no address: the
/// program that is to listen there says more about it.
[[nodiscard]] bool is_free_port(const std::string& address, std::uint16_t port);

/// The first port from `from` on at which nobody listens on 127.0.0.1 and which is not among `chosen`; `from`
/// itself when there is none among the next 1,000.
[[nodiscard]] std::uint16_t first_free_port(std::uint16_t from, const std::vector<std::uint16_t>& chosen);

/// Who listens on a TCP port of this machine, at any of its addresses.
struct Listener {
  std::set<uid_t> users{};  ///< who made the sockets; empty when nobody listens
  int pid = 0;              ///< a process that has one; 0 where this user may see none
  uid_t holder = 0;         ///< that process's user
  std::string name{};       ///< and its program
  /// systemd has it, for a socket unit, and no other process does that this user may see.
  [[nodiscard]] bool is_waiting() const { return pid == 1 && name == "systemd"; }
  /// Of root, without a word by whom: a socket unit's perhaps.
  [[nodiscard]] bool is_hidden() const { return pid == 0 && users == std::set<uid_t>{0}; }
};
[[nodiscard]] Listener find_listener(std::uint16_t port);

/// "haproxy (pid 812)" for the program that listens on a TCP port of this machine; "another program" where
/// this user may not see which.
[[nodiscard]] std::string listener_on(std::uint16_t port);

}  // namespace driftgate::cli
