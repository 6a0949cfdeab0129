#pragma once

#include "daemon/route/control/driver.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"

namespace driftgate::pipeline {

/// Whether the data plane can do what a promotion under the contract will ask of it: `unsupported` with the
/// first thing that it lacks, the part of the contract that needs it, and what to do.
[[nodiscard]] schema::Result<void> check_data_plane(const route::Capabilities& can,
                                                    const schema::Contract& contract);

}  // namespace driftgate::pipeline
