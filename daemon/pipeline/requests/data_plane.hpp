#pragma once

#include "daemon/route/control/driver.hpp"
#include "daemon/store/registry/engines.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"

namespace driftgate::pipeline {

/// Whether the data plane can do what a promotion under the contract will ask of it: `unsupported` with the
/// first thing that it lacks, the part of the contract that needs it, and what to do.
[[nodiscard]] schema::Result<void> check_data_plane(const route::Capabilities& can,
                                                    const schema::Contract& contract);

/// Whether the data plane can send users' requests to the engine: `unsupported`, at `where`, for one with a
/// key, over https or under a path, where the plane has no `engine_access`.
[[nodiscard]] schema::Result<void> check_engine_access(const route::Capabilities& can, store::Reader& reader,
                                                       const store::EngineRow& engine, const char* where);

}  // namespace driftgate::pipeline
