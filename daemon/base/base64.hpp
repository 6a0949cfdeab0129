#pragma once

#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::base {

/// Base 64 of RFC 4648 section 4, padded.
[[nodiscard]] std::string to_base64(std::string_view bytes);
/// Only what to_base64 writes; `invalid_argument` for anything else.
[[nodiscard]] schema::Result<std::string> from_base64(std::string_view text);

}  // namespace driftgate::base
