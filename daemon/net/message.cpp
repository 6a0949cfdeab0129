#include "daemon/net/message.hpp"

#include "daemon/base/http_text.hpp"

namespace driftgate::net {

std::optional<std::string_view> find_header(const Headers& headers, std::string_view name) {
  for (const Header& header : headers)
    if (base::equal_ignoring_case(header.name, name)) return header.value;
  return std::nullopt;
}

}  // namespace driftgate::net
