#pragma once

#include <optional>
#include <string_view>

namespace driftgate::web {

/// The content codings that a client takes (Accept-Encoding, RFC 9110 section 12.5.3).
struct AcceptedCodings {
  bool gzip = false;
  bool brotli = false;
};

/// Reads the field; without it, and where it cannot be read, only the plain form is taken. A weight of 0 is a
/// refusal, other weights are not compared: each variant that is taken is better than the next plainer one.
[[nodiscard]] AcceptedCodings accepted_codings(std::optional<std::string_view> field);

}  // namespace driftgate::web
