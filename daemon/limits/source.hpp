#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string_view>

namespace driftgate::limits {

/// Who counts as one client of a port: an IPv4 address, or the /64 network of an IPv6 address, because one
/// host usually has a whole /64 to itself. An IPv4 address that is mapped into IPv6 counts as itself.
class Source {
 public:
  /// `address` is numeric, such as "192.0.2.1" or "2001:db8::1%eth0". Texts that are no address count
  /// together as one client.
  [[nodiscard]] static Source of(std::string_view address);
  auto operator<=>(const Source&) const = default;

 private:
  std::uint8_t family_ = 0;  ///< 4, 6, or 0 for what is no address
  std::array<std::uint8_t, 8> network_{};
};

}  // namespace driftgate::limits
