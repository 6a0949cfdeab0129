#pragma once

#include <fmt/format.h>

#include <utility>

#include "schema/error.hpp"

namespace driftgate::base {

/// An expected failure whose message is formatted.
template <typename... Args>
[[nodiscard]] std::unexpected<schema::Error> failure(schema::ErrorCode code,
                                                     fmt::format_string<Args...> message, Args&&... args) {
  return schema::fail(code, fmt::format(message, std::forward<Args>(args)...));
}

}  // namespace driftgate::base
