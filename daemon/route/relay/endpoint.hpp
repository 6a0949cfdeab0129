#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::route {

class EnginePass;

/// Where an engine listens, and what it asks for.
struct Endpoint {
  std::string host;  ///< name or address, an IPv6 address without brackets
  std::uint16_t port = 0;
  std::string authority;  ///< "host:port" as written, for the Host header and as the key of pools
  bool tls = false;       ///< https
  std::string prefix{};   ///< "/team/llama", before the path of every request; mostly empty
  /// Its key and the CAs that vouch for it; null for an engine over http that asks for no key.
  std::shared_ptr<EnginePass> pass{};

  /// Requests show a key of the engine's own.
  [[nodiscard]] bool has_key() const;
  /// What the Host header says: the authority, without a port that is the scheme's own.
  [[nodiscard]] std::string_view host_field() const;
};

/// "host:port" or "[v6]:port"; port 0 is allowed.
[[nodiscard]] schema::Result<Endpoint> parse_authority(std::string_view text);

/// "http[s]://host:port[/prefix]" (route.hpp, Arm::url), without its pass.
[[nodiscard]] schema::Result<Endpoint> parse_engine_url(std::string_view url);

}  // namespace driftgate::route
