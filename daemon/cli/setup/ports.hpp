#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace driftgate::cli {

/// Whether a program could listen on a TCP port of a numeric address now. True for what is no address: the
/// program that is to listen there says more about it.
[[nodiscard]] bool is_free_port(const std::string& address, std::uint16_t port);

/// The first port from `from` on at which nobody listens on 127.0.0.1 and which is not among `chosen`; `from`
/// itself when there is none among the next 1,000.
[[nodiscard]] std::uint16_t first_free_port(std::uint16_t from, const std::vector<std::uint16_t>& chosen);

/// "haproxy (pid 812)" for the program that listens on a TCP port of this machine; "another program" where
/// this user may not see which.
[[nodiscard]] std::string listener_on(std::uint16_t port);

}  // namespace driftgate::cli
