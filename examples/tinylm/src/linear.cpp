#include "examples/tinylm/src/linear.hpp"

#include <algorithm>
#include <cmath>

#include "examples/tinylm/src/kernels.hpp"

namespace tinylm {
namespace {

constexpr float kInt8Max = 127.0f;
// The scale of a channel that was always 0 in calibration, as a share of the largest maximum of the layer.
constexpr float kSmallestScaleShare = 1e-3f;

}  // namespace

std::optional<Precision> precision_of(std::string_view name) {
  if (name == "f32") return Precision::f32;
  if (name == "bf16") return Precision::bf16;
  if (name == "int8") return Precision::int8;
  if (name == "int8-static") return Precision::int8_static;
  return std::nullopt;
}

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::f32:
      return "f32";
    case Precision::bf16:
      return "bf16";
    case Precision::int8:
      return "int8";
    case Precision::int8_static:
      return "int8-static";
  }
  return "";
}

std::size_t block_for(std::size_t rows) {
  if (rows == 1) return 0;
  if (rows < 16) return 512;
  return rows < 128 ? 64 : 32;
}

Linear::Linear(Precision precision, const std::vector<float>& weight, std::size_t out, std::size_t in,
               const std::vector<float>& input_maxima)
    : precision_(precision), out_(out), in_(in), padded_out_((out + kPanel - 1) / kPanel * kPanel) {
  std::vector<float> values = weight;
  if (precision == Precision::bf16) kernels().round_bf16(values.data(), values.size());
  if (precision == Precision::int8_static) {
    const float floor = kSmallestScaleShare * *std::max_element(input_maxima.begin(), input_maxima.end());
    for (std::size_t i = 0; i < in; ++i) {
      const float scale = std::max(input_maxima[i], floor) / kInt8Max;
      input_scale_.push_back(scale);
      inverse_input_scale_.push_back(1.0f / scale);
    }
  }
  if (precision == Precision::int8 || precision == Precision::int8_static) quantise_weights(values);
  pack(values);
}

// Integers of at most 127 in size; their products over at most 1024 inputs stay below 2^24, where float32
// sums are exact, so int8 runs on the float32 kernels without any rounding. int8-static widens its inputs
// by their channels' scales first, and sums in float32.
void Linear::quantise_weights(std::vector<float>& weight) {
  output_scale_.assign(padded_out_, 0.0f);
  for (std::size_t o = 0; o < out_; ++o) {
    float* row = weight.data() + o * in_;
    float top = 0;
    for (std::size_t i = 0; i < in_; ++i) top = std::max(top, std::abs(row[i]));
    const float scale = top > 0 ? top / kInt8Max : 1.0f;
    for (std::size_t i = 0; i < in_; ++i) row[i] = std::nearbyint(row[i] / scale);
    output_scale_[o] = scale;
  }
}

void Linear::pack(const std::vector<float>& weight) {
  packed_.assign(padded_out_ * in_, 0.0f);
  for (std::size_t o = 0; o < out_; ++o)
    for (std::size_t i = 0; i < in_; ++i)
      packed_[(o / kPanel * in_ + i) * kPanel + o % kPanel] = weight[o * in_ + i];
}

void Linear::apply(const float* x, std::size_t rows, float* y, bool round_output) {
  const Kernels& k = kernels();
  const std::size_t block = block_for(rows);
  if (precision_ == Precision::f32 || precision_ == Precision::bf16) {
    k.matmul(x, packed_.data(), y, rows, in_, padded_out_, block);
    if (precision_ == Precision::bf16 && round_output) k.round_bf16(y, rows * padded_out_);
    return;
  }
  quantised_.resize(rows * in_);
  row_scale_.assign(rows, 1.0f);
  for (std::size_t r = 0; r < rows; ++r) {
    if (precision_ == Precision::int8)
      row_scale_[r] = k.quantise_row(x + r * in_, quantised_.data() + r * in_, in_);
    else
      k.quantise_static(x + r * in_, inverse_input_scale_.data(), input_scale_.data(),
                        quantised_.data() + r * in_, in_);
  }
  k.matmul(quantised_.data(), packed_.data(), y, rows, in_, padded_out_, block);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < padded_out_; ++o) y[r * padded_out_ + o] *= row_scale_[r] * output_scale_[o];
}

}  // namespace tinylm
