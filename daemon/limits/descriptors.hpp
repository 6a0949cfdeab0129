#pragma once

#include <cstddef>

namespace driftgate::limits {

/// How many connections the process may hold: `wanted`, or fewer where its limit of open files
/// (RLIMIT_NOFILE) does not have `each` descriptors for every connection and `reserve` for all else. At
/// least 1.
[[nodiscard]] std::size_t connections_that_fit(std::size_t wanted, std::size_t each, std::size_t reserve);

}  // namespace driftgate::limits
