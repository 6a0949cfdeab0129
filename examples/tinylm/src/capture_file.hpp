#pragma once
/// Rows of a capture, collected in order and written as one safetensors file.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "examples/tinylm/src/result.hpp"

namespace tinylm {

struct CaptureIdentity {
  std::string kernel, token_source, checkpoint_digest, corpus_digest;
  std::string sampling_filter = "none";
};

class CaptureRows {
 public:
  /// `index`: index of the target token in its sequence. The position of the row is that of the token before
  /// it.
  void add(std::int32_t sequence, std::size_t index, std::int32_t token, std::span<const float> logits) {
    add(sequence, index, token, logits, logits);
  }
  /// Writes hidden states instead of the logits that they give.
  void add(std::int32_t sequence, std::size_t index, std::int32_t token, std::span<const float> logits,
           std::span<const float> kept);
  /// Appends the rows of another capture of the same kind.
  void append(const CaptureRows& other);
  /// Declares that the rows are hidden states whose head is this tensor of the checkpoint.
  void set_head(const std::string& tensor) { head_ = tensor; }
  std::size_t size() const { return tokens_.size(); }
  Result<void> write(const std::string& path, const CaptureIdentity& identity) const;

 private:
  std::vector<std::int32_t> sequences_, positions_, tokens_;
  std::vector<float> kept_, logprobs_;
  std::string head_;
};

}  // namespace tinylm
