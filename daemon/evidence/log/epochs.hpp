#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/evidence/log/merkle.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::evidence {

/// The epoch of the log: 1, and one more for each restore that accepted a loss (entry `epoch_changed`).
[[nodiscard]] Result<std::uint64_t> log_epoch(store::Reader& reader);

/// The log's name in heads of an epoch: the configured origin, from the second epoch on with "/epoch-N".
/// Heads of two epochs are those of two logs, so that nobody takes a restored log for the one that it
/// replaced.
[[nodiscard]] std::string origin_of(std::string_view configured, std::uint64_t epoch);

}  // namespace driftgate::evidence
