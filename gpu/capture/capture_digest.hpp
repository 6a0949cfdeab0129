#pragma once

#include <string>

#include "gpu/capture/capture.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

/// "sha256:…" of the capture's file; of the canonical JSON list of its files' digests, in name order, where
/// it has several, and of its head's digest last where it holds hidden states. `io` when a file changed while it was read.
[[nodiscard]] schema::Result<std::string> capture_digest(const Capture& capture);

}  // namespace driftgate::gpu
