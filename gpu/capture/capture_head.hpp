#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gpu/capture/safetensors.hpp"
#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

/// What the header of one file of a capture says of it. None of its rows are read, and nothing is mapped.
struct CaptureHead {
  CaptureIdentity identity{};
  std::uint32_t vocabulary = 0;  ///< of full logits, or as a partial capture states it; 0: not stated
};

/// The identity that a capture's metadata state. Errors: `unsupported` for another version of captures,
/// `invalid_capture` for a temperature that is none; messages begin with `name`.
[[nodiscard]] schema::Result<CaptureIdentity> capture_identity(const SafetensorsHeader& header,
                                                               const std::string& name);
/// Reads the first bytes of a file, at least its header, of which the whole has `file_bytes`. Errors: those
/// of parse_safetensors_header and above.
[[nodiscard]] schema::Result<CaptureHead> parse_capture_head(std::string_view bytes, std::uint64_t file_bytes,
                                                             const std::string& name);

}  // namespace driftgate::gpu
