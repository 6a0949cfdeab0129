#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpu/capture/safetensors.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu::fused {

inline constexpr std::uint64_t kMaxHiddenWidth = 65'536;

class LmHead;

/// Where the caller has the heads of `hidden` captures. All may be empty; then the metadata of the capture
/// must name a file.
struct HeadSource {
  std::filesystem::path lm_head;     ///< a safetensors file that replaces the one named by the metadata
  std::filesystem::path checkpoint;  ///< a folder of *.safetensors files, or one such file
  std::shared_ptr<const LmHead> head = nullptr;  ///< one that is open, whatever the metadata says
};

/// The head of a capture of hidden states (docs/design/measurement.md, "Tensors and metadata"). Its logits
/// are x = scale·(W·h + bias), then soft_cap·tanh(x / soft_cap) where there is one. The metadata of the
/// capture is untrusted. All of these keys are optional, and none may lead out of the folder of the capture:
///
///   lm_head             TENSOR of the checkpoint, or FILE#TENSOR with FILE in the folder of the capture;
///                       absent: lm_head.weight
///   lm_head.bias        a tensor [V] of the same file
///   lm_head.scale       a number greater than 0
///   lm_head.soft_cap    a number greater than 0
///   lm_head.vocabulary  how many of the tensor's rows are tokens; the rest is padding
///   lm_head.digest      "sha256:…" of the bytes of the weight, then of the bias
class LmHead {
 public:
  /// Finds and checks the head that `capture` names. Errors: invalid_capture for a broken rule (of the
  /// metadata, the file, the type or shape of the tensor, the digest), not_found, invalid_argument when the
  /// metadata names a tensor of the checkpoint and the caller gave no checkpoint.
  [[nodiscard]] static schema::Result<std::shared_ptr<const LmHead>> open(const SafetensorsFile& capture,
                                                                          const HeadSource& source);

  /// A head in memory that the caller keeps as it is: tensors `lm_head.weight` and, if there is one,
  /// `lm_head.bias`, and the metadata lm_head.scale, lm_head.soft_cap and lm_head.vocabulary. It has no
  /// digest.
  [[nodiscard]] static schema::Result<std::shared_ptr<const LmHead>> of_memory(SafetensorsFile file);

  [[nodiscard]] std::uint32_t vocabulary() const { return vocabulary_; }
  [[nodiscard]] std::uint32_t width() const { return width_; }
  [[nodiscard]] std::uint32_t dtype() const { return dtype_; }  ///< DRIFTGATE_F32, F16 or BF16
  /// The `width` elements of the row of a token, as stored.
  [[nodiscard]] const unsigned char* row(std::uint32_t token) const {
    return weight_ + std::uint64_t{token} * row_bytes_;
  }
  [[nodiscard]] bool has_bias() const { return !bias_.empty(); }
  /// The bias as stored; 0 where there is none. −∞ in both heads of a pair masks the token.
  [[nodiscard]] double bias_of(std::uint32_t token) const { return bias_.empty() ? 0.0 : bias_[token]; }
  [[nodiscard]] double scale() const { return scale_; }
  [[nodiscard]] double soft_cap() const { return soft_cap_; }  ///< 0 = none
  [[nodiscard]] const std::string& digest() const { return digest_; }  ///< empty for a head in memory
  /// Whether both weights are equal, element by element. Scale, bias and soft-cap may differ.
  [[nodiscard]] bool same_weight(const LmHead& other) const;
  [[nodiscard]] schema::Result<void> check_unchanged() const { return file_.check_unchanged(); }

 private:
  explicit LmHead(SafetensorsFile file) : file_(std::move(file)) {}
  schema::Result<void> read_weight(const std::string& tensor);
  schema::Result<void> read_bias(const std::string& tensor);
  schema::Result<void> read_shape(const SafetensorsFile& capture);
  schema::Result<void> check_digest(const SafetensorsFile& capture);

  SafetensorsFile file_;
  std::string name_;  ///< of the file, for messages
  const TensorInfo* weight_info_ = nullptr;
  const TensorInfo* bias_info_ = nullptr;
  const unsigned char* weight_ = nullptr;
  std::uint64_t row_bytes_ = 0;
  std::uint32_t vocabulary_ = 0, width_ = 0, dtype_ = 0;
  std::vector<double> bias_;
  double scale_ = 1, soft_cap_ = 0;
  std::string digest_;
};

/// The first difference between the metadata of two files of one capture about their head; empty when there
/// is none.
[[nodiscard]] std::string head_difference(const SafetensorsFile& a, const SafetensorsFile& b);

}  // namespace driftgate::gpu::fused
