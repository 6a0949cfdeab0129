#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/capture/safetensors.hpp"
#include "gpu/fused/head.hpp"
#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

inline constexpr std::size_t kMaxCaptureFiles = 10'000;

/// What a capture holds of each row's distribution (docs/design/measurement.md, "Captures").
enum class CaptureMode : std::uint8_t {
  full,     ///< `logits`: the whole distribution
  hidden,   ///< `hidden` and a head, which give the whole distribution
  topk,     ///< `topk_ids`, `topk_logprobs`: lists of the most likely tokens
  matched,  ///< the same tensors with metadata `support` = "matched": lists of ids that the caller chose
  realised  ///< `token_ids`, `logprobs`: only the target token
};
[[nodiscard]] std::string_view to_string(CaptureMode mode);  ///< "full" …
/// Whether captures of this mode hold only a part of each distribution, so that most figures are bounds
/// (docs/design/measurement.md, "Partly known distributions").
[[nodiscard]] constexpr bool is_partial(CaptureMode mode) {
  return mode == CaptureMode::topk || mode == CaptureMode::matched || mode == CaptureMode::realised;
}

/// The mode and the width of the tensors of a capture; the same in each of its files.
struct CaptureLayout {
  CaptureMode mode{};
  std::uint32_t vocabulary = 0;  ///< V; of a partial capture as its metadata states it, 0: not stated
  std::uint32_t columns = 0;     ///< V, the width D of the hidden states, or the list's length K
  bool operator==(const CaptureLayout&) const = default;
};

/// The rows of one file of a capture. Pointers are into its mapped memory, or into that of a caller.
struct CaptureSegment {
  SafetensorsFile file;
  std::uint64_t first_row = 0, rows = 0;
  std::uint64_t row_bytes = 0;       ///< from one row of logits or hidden states to the next
  DType dtype{};                     ///< of the logits or hidden states: F32, F16 or BF16
  const std::byte* logits{};         ///< [rows, vocabulary]; full mode
  const std::byte* hidden{};         ///< [rows, columns]; hidden mode
  DType id_dtype{};                  ///< of the list's ids: I32 or I64
  const std::byte* list_ids{};       ///< [rows, columns]; modes topk and matched
  const std::byte* list_logprobs{};  ///< [rows, columns] F32
};

/// A token in the list of one row. Tokens whose log-probability is unknown (absent, null, −9999 and below,
/// −∞) are left out.
struct ListedToken {
  std::int64_t id = 0;
  float logprob = 0;  ///< NaN where the engine gave NaN or +inf
};

/// Rows in the memory of a caller, with the tensors, types, shapes and metadata of a capture file. The
/// matrices (logits, hidden, lists) are not copied and must stay as they are while a capture refers to them.
struct MemoryRows {
  std::string name;  ///< for messages
  std::vector<MemoryTensor> tensors;
  std::map<std::string, std::string> metadata;
  std::uint64_t row_stride_bytes = 0;  ///< of logits or hidden states; 0: rows follow each other
  bool on_device = false;  ///< the logits are in the memory of the CUDA device that will measure them
  std::shared_ptr<const fused::LmHead> head{};  ///< of hidden states
  std::uint64_t first_row = 0;                  ///< the index of the first row, for messages
};

/// What one kernel produced on one corpus (docs/design/measurement.md, "Captures").
class Capture {
 public:
  /// Opens a file, or all *.safetensors files of a directory in the order of their names. Errors: not_found
  /// and io from the system, invalid_capture for a broken rule, and those of fused::LmHead::open for captures
  /// of hidden states.
  [[nodiscard]] static schema::Result<Capture> open(const std::filesystem::path& path,
                                                    const fused::HeadSource& source = {});
  /// A capture of rows in memory. Errors: as those of `open` for a file; invalid_argument for a stride that
  /// is shorter than a row, unsupported for rows on a device that are not logits.
  [[nodiscard]] static schema::Result<Capture> of_memory(const MemoryRows& rows);

  [[nodiscard]] const CaptureIdentity& identity() const { return identity_; }
  [[nodiscard]] std::uint64_t rows() const { return sequence_ids_.size(); }
  [[nodiscard]] CaptureMode mode() const { return layout_.mode; }
  [[nodiscard]] std::uint32_t vocabulary() const { return layout_.vocabulary; }
  [[nodiscard]] std::uint32_t columns() const { return layout_.columns; }
  [[nodiscard]] bool has_tokens() const { return !token_ids_.empty(); }
  [[nodiscard]] std::span<const std::int64_t> token_ids() const { return token_ids_; }
  /// Log-probability of each target token as the engine reported it, in nats; empty when it did not.
  [[nodiscard]] std::span<const float> logprobs() const { return logprobs_; }
  /// The tokens of one row's list that have a known log-probability, as stored. Modes topk and matched only.
  void list(std::uint64_t row, std::vector<ListedToken>& out) const;
  [[nodiscard]] std::span<const std::int64_t> sequence_ids() const { return sequence_ids_; }
  /// The position of each row in its sequence as stored, or else counted from 0.
  [[nodiscard]] std::span<const std::int64_t> positions() const { return positions_; }
  [[nodiscard]] std::span<const CaptureSegment> segments() const { return segments_; }
  /// The head that turns hidden states into logits; null in the other modes.
  [[nodiscard]] const std::shared_ptr<const fused::LmHead>& head() const { return head_; }
  /// Whether it refers to memory of a caller, and whether to that of a device, which the CPU cannot read.
  [[nodiscard]] bool in_memory() const { return segments_.front().file.in_memory(); }
  [[nodiscard]] bool on_device() const { return on_device_; }
  /// The path that was opened.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The rows [first, first + count), which must exist, as a capture that shares the files.
  [[nodiscard]] Capture slice(std::uint64_t first, std::uint64_t count) const;
  /// Of a slice, the index of its first row in the capture that it was taken from; of rows in memory, as
  /// given; otherwise 0.
  [[nodiscard]] std::uint64_t first_row() const { return first_row_; }
  /// Errors: io when the size of a file has changed since it was opened.
  [[nodiscard]] schema::Result<void> check_unchanged() const;

 private:
  Capture() = default;
  schema::Result<void> add_file(SafetensorsFile opened, const fused::HeadSource& source,
                                std::uint64_t row_stride_bytes = 0);
  schema::Result<void> add_columns(const SafetensorsFile& file, std::uint64_t rows);
  void number_positions();
  std::string name_;
  std::uint64_t first_row_ = 0;
  bool on_device_ = false;
  CaptureIdentity identity_;
  CaptureLayout layout_;
  std::vector<std::int64_t> token_ids_, sequence_ids_, positions_;
  std::vector<float> logprobs_;
  std::vector<CaptureSegment> segments_;
  std::shared_ptr<const fused::LmHead> head_;
};

/// Checks that two captures may be compared: corpus, checkpoint, temperature, token_source, sampling_filter,
/// mode, vocabulary, number of rows, sequence_ids, positions, token_ids and the ids of matched lists must
/// agree. Errors: not_comparable, naming the first difference in that order.
[[nodiscard]] schema::Result<void> check_comparable(const Capture& train, const Capture& inf);

}  // namespace driftgate::gpu
