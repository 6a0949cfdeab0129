#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::base {

/// Where a server listens: the part of a URL between "//" and the path.
struct Authority {
  std::string host;                   ///< name or address; IPv6 without brackets
  std::optional<std::uint16_t> port;  ///< 0 included
};

/// Reads "host", "host:port", "[v6]" or "[v6]:port". A name has letters, digits, '.', '-' and '_'.
/// `invalid_argument` with what is wrong in `whole`, the URL that the text was taken from.
[[nodiscard]] schema::Result<Authority> parse_authority(std::string_view text, std::string_view whole);

/// Whether a Host header says this (RFC 9110, section 7.2): what parse_authority reads.
[[nodiscard]] bool is_host(std::string_view text);

}  // namespace driftgate::base
