#pragma once

#include <string_view>

namespace driftgate::base {

/// "Not Found" for 404 (RFC 9110, section 15); "Unknown" for codes that driftgate does not use.
[[nodiscard]] std::string_view reason_phrase(int status);

}  // namespace driftgate::base
