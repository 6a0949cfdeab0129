#include "daemon/cli/setup/deployment.hpp"

#include <fmt/format.h>

#include <charconv>

namespace driftgate::cli {

std::pair<std::string, std::uint16_t> address_and_port(const std::string& listen) {
  const auto colon = listen.rfind(':');
  if (colon == std::string::npos) return {listen, 0};
  std::uint16_t port = 0;
  const char* const end = listen.data() + listen.size();
  const auto read = std::from_chars(listen.data() + colon + 1, end, port);
  if (read.ec != std::errc{} || read.ptr != end) port = 0;
  std::string address = listen.substr(0, colon);
  if (address.size() > 1 && address.front() == '[' && address.back() == ']')
    address = address.substr(1, address.size() - 2);
  return {address, port};
}

std::string Deployment::url() const {
  auto [address, port] = address_and_port(listen);
  if (port == 0) return {};
  if (address.empty() || address == "0.0.0.0") address = "127.0.0.1";
  if (address == "::") address = "::1";
  const bool six = address.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", tls ? "https" : "http", six ? "[" : "", address, six ? "]" : "", port);
}

}  // namespace driftgate::cli
