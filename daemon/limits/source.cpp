#include "daemon/limits/source.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <string>

namespace driftgate::limits {
namespace {

constexpr std::size_t kMappedAt = 12;  ///< where the IPv4 address lies in ::ffff:a.b.c.d

}  // namespace

Source Source::of(std::string_view address) {
  const std::string text(address.substr(0, address.find('%')));
  Source source;
  std::array<std::uint8_t, 4> v4{};
  std::array<std::uint8_t, 16> v6{};
  if (::inet_pton(AF_INET, text.c_str(), v4.data()) == 1) {
    source.family_ = 4;
    std::ranges::copy(v4, source.network_.begin());
  } else if (::inet_pton(AF_INET6, text.c_str(), v6.data()) == 1) {
    const bool mapped =
        std::all_of(v6.begin(), v6.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
        v6[10] == 0xff && v6[11] == 0xff;
    source.family_ = mapped ? 4 : 6;
    if (mapped)
      std::copy(v6.begin() + kMappedAt, v6.end(), source.network_.begin());
    else
      std::copy_n(v6.begin(), source.network_.size(), source.network_.begin());
  }
  return source;
}

}  // namespace driftgate::limits
