#pragma once

#include <string>
#include <string_view>

#include "gpu/capture/capture.hpp"

/// One reader for each mode of a capture; `Capture::open` calls the one whose tensor is there.
namespace driftgate::gpu {

/// An invalid_capture error that begins with the file's path.
[[nodiscard]] std::unexpected<schema::Error> invalid(const SafetensorsFile& file, const std::string& text);
/// "[3, 4]"
[[nodiscard]] std::string shape_text(const TensorInfo& tensor);
/// What is wrong with an id: "outside the vocabulary of 4", and where no vocabulary is stated (0) that it is
/// no id.
[[nodiscard]] std::string outside_text(std::uint32_t vocabulary);

/// Fills in rows, dtype and logits of the segment from tensor `logits`.
[[nodiscard]] schema::Result<CaptureLayout> read_full(CaptureSegment& segment);
/// Modes topk and matched: rows, list_ids, list_logprobs. Checks that no id is twice in a row nor outside the
/// vocabulary.
[[nodiscard]] schema::Result<CaptureLayout> read_lists(CaptureSegment& segment);
/// Mode realised: rows. The tensors are those of every mode.
[[nodiscard]] schema::Result<CaptureLayout> read_realised(CaptureSegment& segment);

/// Matched lists name the same ids in each row, in any order; the error names the first difference.
[[nodiscard]] schema::Result<void> compare_lists(const Capture& train, const Capture& inf);

/// Whether an engine's figure stands for "not known": absent, −9999 and below, −inf
/// (docs/design/measurement.md, "Partly known distributions"). NaN is not: it is a fault of the engine.
[[nodiscard]] constexpr bool is_unknown_logprob(double value) {
  return value <= -9999.0;
}

}  // namespace driftgate::gpu
