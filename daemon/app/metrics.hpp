#pragma once

#include <cstdint>
#include <string>

#include "daemon/api/call.hpp"
#include "daemon/app/router_keeper.hpp"
#include "daemon/evidence/verify/background_check.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::app {

/// Figures of the store and the log in the Prometheus text format.
[[nodiscard]] std::string store_metrics(const store::Store::Stats& stats, std::uint64_t published_size);
/// How often the router was replaced, and what went with it.
[[nodiscard]] std::string router_metrics(const RouterKeeper::Figures& figures);

/// How far the check of the record is, in the same format.
[[nodiscard]] std::string check_metrics(const evidence::CheckProgress& progress);

/// The check of the record for /readyz: that it goes on does not hold readiness up, a difference does.
[[nodiscard]] api::ReadyCheck record_ready(const evidence::CheckProgress& progress);

}  // namespace driftgate::app
