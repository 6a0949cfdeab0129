#include "gpu/fused/packed_pairs.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "gpu/cpu/half.hpp"

namespace driftgate::gpu::fused {

namespace {

/// The bf16 number that `value` is truncated to (towards 0): its 8 most significant bits of 24.
std::uint16_t first_bits(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

}  // namespace

PackedPairs::PackedPairs(const PairKernel& kernel, std::size_t most_rows, std::size_t width)
    : kernel_(kernel),
      width_(width),
      steps_((width + kDepth - 1) / kDepth),
      panels_((most_rows + kernel.rows - 1) / kernel.rows) {
  const std::size_t panel_elements = kPairs * kernel.rows;
  train_.resize(steps_ * panels_ * panel_elements);
  drift_.resize(kPieces * train_.size());
  terms_.resize(steps_ * panels_);
}

std::size_t PackedPairs::pairs_of(std::size_t step) const {
  return (std::min(kDepth, width_ - step * kDepth) + 1) / 2;
}

void PackedPairs::clear(std::size_t rows) {
  rows_ = rows;
  std::ranges::fill(train_, 0U);
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    Terms& terms = terms_[i];
    const std::size_t pairs = pairs_of(i / panels_);
    std::memset(&terms.place, kNone, sizeof(terms.place));
    for (std::size_t k = 0; k < pairs; ++k) terms.place[0][k] = static_cast<std::uint8_t>(k);
    terms.count = static_cast<std::uint8_t>(pairs);
    std::fill_n(drift_.begin() + static_cast<std::ptrdiff_t>(i * kPieces * kPairs * kernel_.rows),
                pairs * kernel_.rows, 0U);
  }
}

/// The rows of a panel in the term of a piece of a pair, which is created when it does not exist.
std::uint32_t* PackedPairs::term(std::size_t panel, std::size_t piece, std::size_t pair) {
  Terms& terms = terms_[panel];
  std::uint32_t* first = drift_.data() + panel * kPieces * kPairs * kernel_.rows;
  std::uint8_t& place = terms.place[piece][pair];
  if (place == kNone) {
    place = terms.count++;
    std::fill_n(first + place * kernel_.rows, kernel_.rows, 0U);
  }
  return first + place * kernel_.rows;
}

void PackedPairs::order_terms() {
  for (Terms& terms : terms_) {
    PairKernel::Term* to = terms.ordered;
    for (const auto& piece : terms.place) {
      for (std::size_t pair = 0; pair < kPairs; ++pair) {
        if (piece[pair] != kNone) *to++ = {piece[pair], static_cast<std::uint8_t>(pair)};
      }
    }
  }
}

void PackedPairs::set_row(std::size_t row, std::span<const float> train, std::span<const float> drift) {
  const std::size_t lane = row % kernel_.rows;
  for (std::size_t k = 0; k < width_; ++k) {
    const std::size_t here = panel(k / kDepth, row), pair = k % kDepth / 2;
    const std::size_t half = k % 2 * 16;  // the first of a pair has the lower bits
    train_[(here * kPairs + pair) * kernel_.rows + lane] |= std::uint32_t{first_bits(train[k])} << half;
    float rest = drift[k];
    for (std::size_t piece = 0; piece < kPieces && rest != 0; ++piece) {
      const std::uint16_t part = first_bits(rest);
      term(here, piece, pair)[lane] |= std::uint32_t{part} << half;
      rest -= cpu::from_bf16(part);
    }
  }
}

void PackedPairs::pack_tokens(std::size_t step, const LmHead& head, std::span<const std::uint32_t> tokens) {
  const std::size_t lanes = kernel_.columns, pairs = pairs_of(step);
  const std::size_t bytes = 2 * std::min(kDepth, width_ - step * kDepth);
  tokens_.resize(std::max(tokens_.size(), round_up(tokens.size(), lanes) * kPairs));
  std::uint32_t row[kPairs];
  for (std::size_t j = 0; j < round_up(tokens.size(), lanes); ++j) {
    std::uint32_t* to = tokens_.data() + j / lanes * lanes * pairs + j % lanes;
    std::memset(row, 0, sizeof(row));
    if (j < tokens.size()) std::memcpy(row, head.row(tokens[j]) + 2 * step * kDepth, bytes);
    for (std::size_t k = 0; k < pairs; ++k) to[k * lanes] = row[k];
  }
}

void PackedPairs::add_products(std::size_t step, const LmHead& head, std::span<const std::uint32_t> tokens,
                               double* z, double* drift, std::size_t stride) {
  pack_tokens(step, head, tokens);
  const std::size_t pairs = pairs_of(step);
  for (std::size_t j = 0; j < tokens.size(); j += kernel_.columns) {
    const std::uint32_t* right = tokens_.data() + j * pairs;
    for (std::size_t row = 0; row < rows_; row += kernel_.rows) {
      const std::size_t here = panel(step, row), first = here * kPairs * kernel_.rows;
      const Terms& terms = terms_[here];
      // The first terms are the first pieces of all pairs, in order.
      kernel_.multiply(train_.data() + first, right, terms.ordered, pairs, z + row * stride + j, stride);
      kernel_.multiply(drift_.data() + kPieces * first, right, terms.ordered, terms.count,
                       drift + row * stride + j, stride);
    }
  }
}

std::size_t PackedPairs::scratch_bytes() const {
  return sizeof(std::uint32_t) * (train_.size() + drift_.size() + tokens_.size()) +
         sizeof(Terms) * terms_.size();
}

}  // namespace driftgate::gpu::fused
