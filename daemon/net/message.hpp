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

/// True when both are equal but for ASCII case.
[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace driftgate::net
