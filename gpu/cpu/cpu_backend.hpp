#pragma once

#include "gpu/backend/backend.h"

namespace driftgate::gpu::cpu {

/// The CPU engine, behind the same table as a plugin's.
[[nodiscard]] const driftgate_backend* backend_table();

}  // namespace driftgate::gpu::cpu
