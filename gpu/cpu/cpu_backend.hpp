#pragma once

#include "gpu/backend/backend.h"

namespace driftgate::gpu::cpu {

/// The CPU engine, behind the table of functions of gpu/backend/backend.h.
[[nodiscard]] const driftgate_backend* backend_table();

}  // namespace driftgate::gpu::cpu
