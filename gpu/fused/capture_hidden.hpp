#pragma once

#include <memory>

#include "gpu/capture/capture.hpp"
#include "gpu/fused/head.hpp"

namespace driftgate::gpu::fused {

/// Mode hidden: rows, dtype and hidden states of the segment. Opens the head into `head` where that is null;
/// the other files of a capture share it.
[[nodiscard]] schema::Result<CaptureLayout> read_hidden(CaptureSegment& segment, const HeadSource& source,
                                                        std::shared_ptr<const LmHead>& head);

}  // namespace driftgate::gpu::fused
