#include "daemon/limits/descriptors.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace driftgate::limits {

std::size_t connections_that_fit(std::size_t wanted, std::size_t each, std::size_t reserve) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  const auto files = static_cast<std::size_t>(limit.rlim_cur);
  const std::size_t fit = files > reserve ? (files - reserve) / each : 0;
  return std::clamp<std::size_t>(fit, 1, std::max<std::size_t>(wanted, 1));
}

}  // namespace driftgate::limits
