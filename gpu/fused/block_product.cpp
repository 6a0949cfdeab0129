#include "gpu/fused/block_product.hpp"

#include <algorithm>

#include "gpu/backend/backend.h"

namespace driftgate::gpu::fused {

namespace {

std::size_t element_bytes(std::uint32_t dtype) {
  return dtype == DRIFTGATE_F32 ? 4 : 2;
}

bool all_finite(std::span<const float> values) {
  float suspicion = 0;
  for (const float value : values) suspicion += value * 0.0F;
  return suspicion == 0.0F;
}

}  // namespace

std::size_t block_rows(const ProductKernel& kernel, std::uint32_t width) {
  const std::size_t row_bytes = 2 * sizeof(float) * width;
  const std::size_t rows = std::min(kPackedBytes / row_bytes, kMaxBlockRows);
  return std::max<std::size_t>(rows / kernel.rows * kernel.rows, kernel.rows);
}

BlockProduct::BlockProduct(const ProductKernel& kernel, const HeadPair& heads, std::size_t most_rows)
    : kernel_(kernel),
      heads_(heads),
      width_(heads.train->width()),
      panel_rows_(heads.pairs != nullptr ? heads.pairs->rows : kernel.rows) {
  const std::size_t rows = round_up(most_rows, panel_rows_);
  flaws_.resize(rows);
  shared_.resize(rows);
  if (heads.pairs != nullptr) {
    pairs_.emplace(*heads.pairs, rows, width_);
  } else {
    packed_rows_.resize(2 * rows * width_);
    packed_tokens_.resize(kTileTokens * std::min(kDepth, width_));
  }
  z_.resize(rows * kTileTokens);
  drift_.resize(rows * kTileTokens);
  wide_train_.resize(width_);
  wide_inf_.resize(width_);
  if (!heads.same) wide_hidden_.resize(width_);
}

void BlockProduct::set_rows(std::span<const HiddenRow> rows) {
  rows_ = rows;
  padded_rows_ = round_up(rows.size(), panel_rows_);
  if (pairs_) {
    pairs_->clear(padded_rows_);
  } else {
    std::fill_n(packed_rows_.begin(), 2 * padded_rows_ * width_, 0.0F);
  }
  for (std::size_t row = 0; row < rows.size(); ++row) pack_row(row);
  if (pairs_) pairs_->order_terms();
}

void BlockProduct::pack_row(std::size_t row) {
  const HiddenRow& from = rows_[row];
  kernel_.widen(from.train, from.train_dtype, width_, wide_train_.data());
  kernel_.widen(from.inf, from.inf_dtype, width_, wide_inf_.data());
  flaws_[row] =
      static_cast<std::uint8_t>((all_finite(wide_train_) ? 0U : 1U) | (all_finite(wide_inf_) ? 0U : 2U));
  shared_[row] = {};
  if (flaws_[row] != 0) return;
  const double scale = heads_.inf->scale();
  if (pairs_) {
    for (std::size_t k = 0; k < width_; ++k) {
      const auto a = static_cast<double>(wide_train_[k]), b = static_cast<double>(wide_inf_[k]);
      wide_inf_[k] = static_cast<float>(scale * (a - b));
    }
    pairs_->set_row(row, wide_train_, wide_inf_);
    return;
  }
  shared_[row] = shared_part();
  const std::size_t panel = row / kernel_.rows, lane = row % kernel_.rows;
  for (std::size_t from_k = 0; from_k < width_; from_k += kDepth) {
    const std::size_t depth = std::min(kDepth, width_ - from_k);
    float* train = packed_rows_.data() + 2 * padded_rows_ * from_k + panel * kernel_.rows * depth + lane;
    float* drift = train + padded_rows_ * depth;
    for (std::size_t k = 0; k < depth; ++k) {
      const auto a = static_cast<double>(wide_train_[from_k + k]);
      const auto b = static_cast<double>(wide_inf_[from_k + k]);
      train[k * kernel_.rows] = wide_train_[from_k + k];
      drift[k * kernel_.rows] = static_cast<float>(scale * (a - b));
    }
  }
}

BlockProduct::Shared BlockProduct::shared_part() const {
  const double scale_train = heads_.train->scale(), scale_inf = heads_.inf->scale();
  Shared out{};
  for (std::size_t k = 0; k < width_; ++k) {
    const auto a = static_cast<double>(wide_train_[k]), b = static_cast<double>(wide_inf_[k]);
    const auto train = static_cast<double>(heads_.centre_train[k]);
    const auto inf = static_cast<double>(heads_.centre_inf[k]);
    out.z += a * train;
    out.drift += scale_inf * (a - b) * inf;
    if (!heads_.same) out.drift += a * (scale_train * train - scale_inf * inf);
  }
  return out;
}

void BlockProduct::widen_token(Weight weight, std::uint32_t token, std::size_t from, std::size_t depth,
                               float* to) {
  const LmHead& head = weight == Weight::inf ? *heads_.inf : *heads_.train;
  const unsigned char* row = head.row(token) + from * element_bytes(head.dtype());
  const float* centre = (weight == Weight::inf ? heads_.centre_inf : heads_.centre_train).data() + from;
  if (weight != Weight::difference) {
    kernel_.widen_less(row, head.dtype(), depth, centre, to);
    return;
  }
  alignas(64) float inf[kDepth];
  kernel_.widen(row, head.dtype(), depth, to);
  kernel_.widen(heads_.inf->row(token) + from * element_bytes(heads_.inf->dtype()), heads_.inf->dtype(),
                depth, inf);
  const double scale_train = heads_.train->scale(), scale_inf = heads_.inf->scale();
  const float* centre_inf = heads_.centre_inf.data() + from;
  for (std::size_t k = 0; k < depth; ++k) {
    // Each bracket is exact in float64, and so is their difference when the weights are close.
    to[k] = static_cast<float>(
        (scale_train * static_cast<double>(to[k]) - scale_inf * static_cast<double>(inf[k])) -
        (scale_train * static_cast<double>(centre[k]) - scale_inf * static_cast<double>(centre_inf[k])));
  }
}

void BlockProduct::pack_tokens(Weight weight, std::size_t first, std::size_t count, std::size_t from,
                               std::size_t depth) {
  alignas(64) float row[kDepth];
  const std::size_t lanes = kernel_.columns;
  for (std::size_t j = 0; j < round_up(count, lanes); ++j) {
    float* to = packed_tokens_.data() + j / lanes * lanes * depth + j % lanes;
    if (j < count) {
      widen_token(weight, heads_.tokens[first + j], from, depth, row);
    } else {
      std::fill_n(row, depth, 0.0F);
    }
    for (std::size_t k = 0; k < depth; ++k) to[k * lanes] = row[k];
  }
}

void BlockProduct::add_products(const float* packed, std::size_t depth, std::size_t tokens, double* to) {
  for (std::size_t j = 0; j < tokens; j += kernel_.columns) {
    const float* right = packed_tokens_.data() + j * depth;
    for (std::size_t i = 0; i < padded_rows_; i += kernel_.rows) {
      kernel_.multiply(packed + i * depth, right, depth, to + i * kTileTokens + j, kTileTokens);
    }
  }
}

void BlockProduct::multiply(std::size_t first, std::size_t count) {
  for (std::size_t row = 0; row < padded_rows_; ++row) {
    const Shared shared = row < rows_.size() ? shared_[row] : Shared{};
    std::fill_n(z(row), kTileTokens, shared.z);
    std::fill_n(drift(row), kTileTokens, shared.drift);
  }
  for (std::size_t from = 0; pairs_ && from < width_; from += kDepth) {
    pairs_->add_products(from / kDepth, *heads_.train, std::span(heads_.tokens).subspan(first, count),
                         z_.data(), drift_.data(), kTileTokens);
  }
  if (pairs_) return;
  for (std::size_t from = 0; from < width_; from += kDepth) {
    const std::size_t depth = std::min(kDepth, width_ - from);
    const float* train = packed_rows_.data() + 2 * padded_rows_ * from;
    const float* difference = train + padded_rows_ * depth;
    pack_tokens(Weight::train, first, count, from, depth);
    add_products(train, depth, count, z_.data());
    if (!heads_.same) pack_tokens(Weight::inf, first, count, from, depth);
    add_products(difference, depth, count, drift_.data());
    if (heads_.same) continue;
    pack_tokens(Weight::difference, first, count, from, depth);
    add_products(train, depth, count, drift_.data());
  }
}

BlockProduct::Exact BlockProduct::exact(std::size_t row, std::uint32_t token) {
  const HiddenRow& from = rows_[row];
  const double scale_train = heads_.train->scale(), scale_inf = heads_.inf->scale();
  Exact out{};
  kernel_.dots(from, heads_.train->row(token), heads_.train->dtype(), width_, &out.z, &out.drift);
  if (!heads_.same) {
    double unused = 0;
    kernel_.dots(from, heads_.inf->row(token), heads_.inf->dtype(), width_, &unused, &out.drift);
  }
  out.drift *= scale_inf;
  if (heads_.same) return out;
  kernel_.widen(from.train, from.train_dtype, width_, wide_hidden_.data());
  kernel_.widen(heads_.train->row(token), heads_.train->dtype(), width_, wide_train_.data());
  kernel_.widen(heads_.inf->row(token), heads_.inf->dtype(), width_, wide_inf_.data());
  for (std::size_t k = 0; k < width_; ++k) {
    const double change =
        scale_train * static_cast<double>(wide_train_[k]) - scale_inf * static_cast<double>(wide_inf_[k]);
    out.drift += static_cast<double>(wide_hidden_[k]) * change;
  }
  return out;
}

std::size_t BlockProduct::scratch_bytes() const {
  return flaws_.size() + sizeof(Shared) * shared_.size() + (pairs_ ? pairs_->scratch_bytes() : 0) +
         sizeof(float) * (packed_rows_.size() + packed_tokens_.size() + wide_train_.size() +
                          wide_inf_.size() + wide_hidden_.size()) +
         sizeof(double) * (z_.size() + drift_.size());
}

}  // namespace driftgate::gpu::fused
