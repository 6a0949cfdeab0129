#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpu/capture/capture_modes.hpp"
#include "gpu/cpu/row_engine.hpp"

namespace driftgate::gpu {

std::unexpected<schema::Error> invalid(const SafetensorsFile& file, const std::string& text) {
  return schema::fail(schema::ErrorCode::invalid_capture, file.path().string() + ": " + text);
}

std::string shape_text(const TensorInfo& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ", "));
}

std::string outside_text(std::uint32_t vocabulary) {
  return vocabulary == 0 ? std::string("which is no token id (0 and above)")
                         : fmt::format("outside the vocabulary of {}", vocabulary);
}

schema::Result<CaptureLayout> read_full(CaptureSegment& segment) {
  const SafetensorsFile& file = segment.file;
  const TensorInfo& logits = *file.find("logits");
  if (logits.dtype != DType::f32 && logits.dtype != DType::f16 && logits.dtype != DType::bf16) {
    return invalid(
        file, fmt::format("tensor 'logits' is {}; allowed are F32, F16 and BF16", to_string(logits.dtype)));
  }
  if (logits.shape.size() != 2 || logits.shape[1] == 0) {
    return invalid(file, "tensor 'logits' has the shape " + shape_text(logits) + "; [N, V] is needed");
  }
  if (logits.shape[1] > cpu::kMaxVocabulary) {
    return invalid(
        file, fmt::format("the vocabulary of {} is larger than {}", logits.shape[1], cpu::kMaxVocabulary));
  }
  segment.rows = logits.shape[0];
  segment.dtype = logits.dtype;
  segment.logits = file.bytes(logits).data();
  const auto width = static_cast<std::uint32_t>(logits.shape[1]);
  return CaptureLayout{CaptureMode::full, width, width};
}

}  // namespace driftgate::gpu
