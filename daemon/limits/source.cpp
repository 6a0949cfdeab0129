#include "daemon/limits/source.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

namespace driftgate::limits {
Source Source::of(std::string_view address) {
  const std::string text(address.substr(0, address.find('%')));
  Source source;
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    source.family_ = 4;
    std::memcpy(source.network_.data(), &v4, sizeof v4);
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6) == 1) {
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6);  // ::ffff:a.b.c.d
    const std::span bytes(v6.s6_addr);
    source.family_ = mapped ? 4 : 6;
    std::ranges::copy(mapped ? bytes.last(4) : bytes.first(8), source.network_.begin());
  }
  return source;
}

}  // namespace driftgate::limits
