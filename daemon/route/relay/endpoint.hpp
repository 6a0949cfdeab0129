#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::route {

/// Where an engine listens.
struct Endpoint {
  std::string host;  ///< name or address, an IPv6 address without brackets
  std::uint16_t port = 0;
  std::string authority;  ///< "host:port" as written, for the Host header and as the key of pools
};

/// "host:port" or "[v6]:port"; port 0 is allowed.
[[nodiscard]] schema::Result<Endpoint> parse_authority(std::string_view text);

/// "http://host:port" with nothing behind it (route.hpp, Arm::url).
[[nodiscard]] schema::Result<Endpoint> parse_engine_url(std::string_view url);

}  // namespace driftgate::route
