#pragma once

#include <string>

#include "gpu/capture/capture.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

/// The digest of a capture, "sha256:…": of its file; where it has several files, of the canonical JSON list
/// of their digests in the order of names; for hidden states the digest of the head is the last of that list.
/// Errors: io when a file changed while it was read.
[[nodiscard]] schema::Result<std::string> capture_digest(const Capture& capture);

}  // namespace driftgate::gpu
