#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace driftgate::net {

struct Header {
  std::string name;
  std::string value;
};

/// In the order they came. Names compare without regard to case.
using Headers = std::vector<Header>;

/// The first value of `name`, or nothing.
[[nodiscard]] std::optional<std::string_view> find_header(const Headers& headers, std::string_view name);

}  // namespace driftgate::net
