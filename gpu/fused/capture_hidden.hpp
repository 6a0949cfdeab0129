#pragma once

#include <memory>

#include "gpu/capture/capture.hpp"
#include "gpu/fused/head.hpp"

namespace driftgate::gpu::fused {

/// Mode hidden: fills in rows, dtype and hidden states of the segment. Opens the head into `head` where that
/// is null; all files of a capture share it. Errors: invalid_capture, and those of LmHead::open.
[[nodiscard]] schema::Result<CaptureLayout> read_hidden(CaptureSegment& segment, const HeadSource& source,
                                                        std::shared_ptr<const LmHead>& head);

}  // namespace driftgate::gpu::fused
