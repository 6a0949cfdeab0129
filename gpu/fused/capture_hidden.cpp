#include "gpu/fused/capture_hidden.hpp"

#include <fmt/format.h>

#include "gpu/capture/capture_modes.hpp"

namespace driftgate::gpu::fused {

schema::Result<CaptureLayout> read_hidden(CaptureSegment& segment, const HeadSource& source,
                                          std::shared_ptr<const LmHead>& head) {
  const SafetensorsFile& file = segment.file;
  const TensorInfo& hidden = *file.find("hidden");
  if (hidden.dtype != DType::f32 && hidden.dtype != DType::f16 && hidden.dtype != DType::bf16) {
    return invalid(
        file, fmt::format("tensor 'hidden' is {}; allowed are F32, F16 and BF16", to_string(hidden.dtype)));
  }
  if (hidden.shape.size() != 2 || hidden.shape[1] == 0 || hidden.shape[1] > kMaxHiddenWidth) {
    return invalid(file,
                   fmt::format("tensor 'hidden' has the shape {}; [N, D] with D of at most {} is needed",
                               shape_text(hidden), kMaxHiddenWidth));
  }
  if (head == nullptr) head = source.head;
  if (head == nullptr) {
    auto opened = TRY(LmHead::open(file, source));
    head = std::move(opened);
  }
  if (hidden.shape[1] != head->width()) {
    return invalid(file, fmt::format("tensor 'hidden' is {} wide and the rows of its head are {}",
                                     hidden.shape[1], head->width()));
  }
  segment.rows = hidden.shape[0];
  segment.dtype = hidden.dtype;
  segment.hidden = file.bytes(hidden).data();
  return CaptureLayout{CaptureMode::hidden, head->vocabulary(), head->width()};
}

}  // namespace driftgate::gpu::fused
