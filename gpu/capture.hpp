#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gpu/measurement.hpp"
#include "gpu/safetensors.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

inline constexpr std::size_t kMaxCaptureFiles = 10'000;

/// Rows of one file of a capture.
struct CaptureSegment {
  SafetensorsFile file;
  std::uint64_t first_row = 0, rows = 0;
  DType dtype{};              ///< of the logits: F32, F16 or BF16
  const std::byte* logits{};  ///< [rows, vocabulary]
};

/// What one kernel produced on one corpus (measurement.md, section 7), in full mode: logits of every row.
class Capture {
 public:
  /// Opens a file, or a directory's *.safetensors in name order. Errors: not_found and io from the
  /// system, invalid_capture for a broken rule, unsupported for the modes hidden, top-k and
  /// realised-token-only, by name.
  [[nodiscard]] static schema::Result<Capture> open(const std::filesystem::path& path);

  [[nodiscard]] const CaptureIdentity& identity() const { return identity_; }
  [[nodiscard]] std::uint64_t rows() const { return sequence_ids_.size(); }
  [[nodiscard]] std::uint32_t vocabulary() const { return vocabulary_; }
  [[nodiscard]] bool has_tokens() const { return !token_ids_.empty(); }
  [[nodiscard]] std::span<const std::int64_t> token_ids() const { return token_ids_; }
  [[nodiscard]] std::span<const std::int64_t> sequence_ids() const { return sequence_ids_; }
  /// As stored; the row's index within its sequence when the capture has no positions.
  [[nodiscard]] std::span<const std::int64_t> positions() const { return positions_; }
  [[nodiscard]] std::span<const CaptureSegment> segments() const { return segments_; }
  /// The path as it was asked for.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// An io error when a file of the capture changed its size.
  [[nodiscard]] schema::Result<void> check_unchanged() const;

 private:
  Capture() = default;
  schema::Result<void> add_file(const std::filesystem::path& path);
  void number_positions();
  std::string name_;
  CaptureIdentity identity_;
  std::uint32_t vocabulary_ = 0;
  std::vector<std::int64_t> token_ids_, sequence_ids_, positions_;
  std::vector<CaptureSegment> segments_;
};

/// Whether figures of two captures may be compared: corpus, checkpoint, temperature, token_source,
/// sampling_filter, vocabulary, rows, sequence_ids, positions and token_ids agree. The not_comparable
/// error names the first difference in that order.
[[nodiscard]] schema::Result<void> check_comparable(const Capture& train, const Capture& inf);

}  // namespace driftgate::gpu
