#pragma once

#include <fmt/format.h>

#include <utility>

#include "schema/error.hpp"

namespace driftgate::schema {

/// As `fail`, with a message that fmt formats.
template <typename... Args>
[[nodiscard]] std::unexpected<Error> failf(ErrorCode code, fmt::format_string<Args...> format,
                                           Args&&... args) {
  return fail(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace driftgate::schema
