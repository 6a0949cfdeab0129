#pragma once

#include <cstdint>
#include <string>

#include "daemon/store/store.hpp"

namespace driftgate::app {

/// Figures of the store and the log in the Prometheus text format.
[[nodiscard]] std::string store_metrics(const store::Store::Stats& stats, std::uint64_t published_size);

}  // namespace driftgate::app
