#pragma once

#include <string>
#include <string_view>

#include "gpu/capture/capture.hpp"
#include "gpu/capture/unknown_logprob.hpp"

/// One reader for each mode of captures. `Capture::open` calls the one whose tensor is in the file.
namespace driftgate::gpu {

/// An invalid_capture error whose message begins with the path of the file.
[[nodiscard]] std::unexpected<schema::Error> invalid(const SafetensorsFile& file, const std::string& text);
/// "[3, 4]"
[[nodiscard]] std::string shape_text(const TensorInfo& tensor);
/// The end of a message about an invalid id: "outside the vocabulary of 4", or, where the capture states no
/// vocabulary (0), that it is no token id.
[[nodiscard]] std::string outside_text(std::uint32_t vocabulary);

/// Mode full: fills in rows, dtype and logits of the segment from the tensor `logits`.
[[nodiscard]] schema::Result<CaptureLayout> read_full(CaptureSegment& segment);
/// Modes topk and matched: fills in rows, list_ids and list_logprobs. Errors: also an id that is twice in a
/// row or outside the vocabulary.
[[nodiscard]] schema::Result<CaptureLayout> read_lists(CaptureSegment& segment);
/// Mode realised (target tokens only): fills in the number of rows. Its tensors are read as in every other
/// mode.
[[nodiscard]] schema::Result<CaptureLayout> read_realised(CaptureSegment& segment);

/// Checks that matched lists have the same ids in each row, in any order. Errors: not_comparable, naming the
/// first difference.
[[nodiscard]] schema::Result<void> compare_lists(const Capture& train, const Capture& inf);

}  // namespace driftgate::gpu
