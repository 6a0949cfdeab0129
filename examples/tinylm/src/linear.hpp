#pragma once
/// A linear layer in one of four precisions.

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace tinylm {

enum class Precision { f32, bf16, int8, int8_static };

std::optional<Precision> precision_of(std::string_view name);
std::string_view name_of(Precision precision);

/// Order of summation for a step of `rows` rows. As in other engines, the fastest order depends on the batch,
/// so that the same row is rounded differently in another batch.
std::size_t block_for(std::size_t rows);

class Linear {
 public:
  /// `weight` is [out, in]. `input_maxima` (per input channel) is used by int8_static only.
  Linear(Precision precision, const std::vector<float>& weight, std::size_t out, std::size_t in,
         const std::vector<float>& input_maxima);

  /// y[rows, padded_out()] from x[rows, in]. `round_output` is for bf16: lm_head keeps float32 logits.
  void apply(const float* x, std::size_t rows, float* y, bool round_output = true);
  std::size_t padded_out() const { return padded_out_; }

 private:
  void pack(const std::vector<float>& weight);
  void quantise_weights(std::vector<float>& weight);

  Precision precision_;
  std::size_t out_, in_, padded_out_;
  std::vector<float> packed_, output_scale_, input_scale_, inverse_input_scale_, quantised_, row_scale_;
};

}  // namespace tinylm
