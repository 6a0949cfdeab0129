#pragma once

#include "gpu/cuda/hidden_records.hpp"
#include "gpu/cuda/reduce.hpp"

/// Splits elements into digits (the method of Ootomo, Ozaki and Yokota, "DGEMM on integer matrix
/// multiplication unit", 2023): q = round(x/unit) with |q| < 2^23, in three balanced digits of 8 bits.
/// Products of digits and their sums are exact in int32, so that a product does not depend on how the matrix
/// units of a device round. See docs/design/measurement.md, "Hidden states".
namespace driftgate::gpu::cuda {

constexpr unsigned kPackThreads = 256;
constexpr unsigned kMostReduced = 8;

/// 2^exponent for −1022 … 1023.
DRIFTGATE_HD double power_of_two(int exponent) {
  const std::uint64_t bits = static_cast<std::uint64_t>(exponent + 1023) << 52;
  double out;
  std::memcpy(&out, &bits, sizeof(out));
  return out;
}

/// The least e with size < 2^e, for finite sizes that are not subnormal.
DRIFTGATE_HD int exponent_above(double size) {
  std::uint64_t bits;
  std::memcpy(&bits, &size, sizeof(bits));
  return static_cast<int>((bits >> 52) & 0x7ffU) - 1022;
}

/// The exponent e of a line (one row of hidden states or one column of a head): its largest element is below
/// 2^e, so that every digit fits.
constexpr int kLeastExponent = -110, kMostExponent = 110;
DRIFTGATE_HD int line_exponent(double largest) {
  constexpr double kMostInteger = 127 * 65'536.0 + 127 * 256 + 127;
  int out = exponent_above(largest);
  if (out < kLeastExponent) return kLeastExponent;
  if (largest * power_of_two(23 - out) > kMostInteger) ++out;
  return out;
}
/// The unit of the last digit.
DRIFTGATE_HD double line_unit(int exponent) {
  return power_of_two(exponent - 23);
}
/// The unit of the first digit.
DRIFTGATE_HD float line_scale(int exponent) {
  return static_cast<float>(power_of_two(exponent - 7));
}

struct Digits {
  signed char value[kDigitCount];
};
DRIFTGATE_HD Digits digits_of(double x, double inverse_unit) {
  int q = static_cast<int>(std::rint(x * inverse_unit));
  Digits out;
  for (unsigned i = kDigitCount; i-- > 1;) {
    const int low =
        static_cast<signed char>(q & 255);  // NOLINT(bugprone-signed-char-misuse): the sign is meant
    out.value[i] = static_cast<signed char>(low);
    q = (q - low) / 256;
  }
  out.value[0] = static_cast<signed char>(q);
  return out;
}

/// The position of digit `digit` of element `k` of a line. Of 32 elements of 16 lines, the lane with g =
/// lane/4 and t = lane%4 holds four words of four elements. Rows: word w is row g + 8·(w%2), from element
/// 16·(w/2) + 4·t on. Columns, two tiles of eight: word w is column g + 8·(w/2), from element 16·(w%2) + 4·t
/// on.
DRIFTGATE_HD std::uint64_t digit_at(const DigitLines& lines, std::uint32_t line, std::uint32_t k,
                                    unsigned digit) {
  const std::uint64_t block = std::uint64_t{k / kChunk} * kDigitCount + digit;
  const std::uint32_t upper = line / 8 % 2, high = k / 16 % 2;
  const std::uint32_t lane = line % 8 * 4 + k % 16 / 4,
                      word = lines.columns ? 2 * upper + high : upper + 2 * high;
  return (block * lines.lines + line / 16 * 16) * kChunk + k / 32 % 2 * 512 + lane * 16 + word * 4 + k % 4;
}

/// Shared memory of a reduction over a block.
struct BlockShared {
  double warp_values[kPackThreads / 32][kMostReduced];
  double total[kMostReduced];
  std::uint32_t counters[4];
};

/// Reduces `values` over the block, in every thread: the first `Maxima` to their maximum, the others to their
/// sum.
template <unsigned Maxima, unsigned N, class Ctx>
DRIFTGATE_HD void block_reduce(Ctx& ctx, BlockShared& shared, double (&values)[N]) {
  static_assert(N <= kMostReduced);
  for (unsigned i = 0; i < N; ++i) {
    for (unsigned mask = 16; mask >= 1; mask /= 2) {
      const double other = ctx.shuffle_xor(values[i], mask);
      values[i] = i + 1 <= Maxima ? std::fmax(values[i], other) : values[i] + other;
    }
    if (ctx.thread() % 32 == 0) shared.warp_values[ctx.thread() / 32][i] = values[i];
  }
  ctx.sync();
  if (ctx.thread() < N) {
    const unsigned i = ctx.thread();
    double out = shared.warp_values[0][i];
    for (unsigned warp = 1; warp < ctx.threads() / 32; ++warp) {
      const double other = shared.warp_values[warp][i];
      out = i + 1 <= Maxima ? std::fmax(out, other) : out + other;
    }
    shared.total[i] = out;
  }
  ctx.sync();
  for (unsigned i = 0; i < N; ++i) values[i] = shared.total[i];
  ctx.sync();
}

/// Writes the digits of `value(k)`, k < width, and zeros to the end of the last chunk.
template <class Ctx, class Value>
DRIFTGATE_HD void write_digits(Ctx& ctx, Value&& value, std::uint32_t width, int exponent,
                               const DigitLines& to, std::uint32_t line) {
  const double inverse = 1 / line_unit(exponent);
  for (std::uint32_t k = ctx.thread(); k < to.chunks * kChunk; k += ctx.threads()) {
    const Digits digits = k < width ? digits_of(value(k), inverse) : Digits{};
    for (unsigned i = 0; i < kDigitCount; ++i) to.digits[digit_at(to, line, k, i)] = digits.value[i];
  }
  if (ctx.thread() == 0) to.scales[line] = line_scale(exponent);
}

/// Fills an unused line with zeros.
template <class Ctx>
DRIFTGATE_HD void write_nothing(Ctx& ctx, const DigitLines& to, std::uint32_t line) {
  write_digits(
      ctx, [](std::uint32_t) { return 0.0; }, 0, 0, to, line);
}

/// Norms of one line of a head; NaN where an element is not finite or too large.
struct LineNorms {
  double square, unit2;  ///< Σx² and the square of the last digit's unit
};

/// Converts one column of a head to digits. `which`: 0 W_train, 1 W_inf, 2 their difference in units of the
/// scale of W_train.
template <class Ctx>
DRIFTGATE_HD void pack_column(Ctx& ctx, const HeadsView& heads, unsigned which, std::uint32_t column,
                              const DigitLines& to, LineNorms* norms) {
  if (column >= heads.columns) {
    write_nothing(ctx, to, column);
    return;
  }
  const std::uint64_t token = heads.tokens[column];
  const auto element = [&](const HeadView& head, std::uint32_t k) {
    const unsigned char* row = head.weight + token * head.line_bytes;
    return static_cast<double>(load_element(row, head.dtype, k)) - static_cast<double>(head.centre[k]);
  };
  const double ratio = heads.inf.scale / heads.train.scale;
  const auto value = [&](std::uint32_t k) {
    if (which == 0) return element(heads.train, k);
    if (which == 1) return element(heads.inf, k);
    return element(heads.train, k) - ratio * element(heads.inf, k);
  };
  double found[3] = {0, 0, 0};  // largest, Σx², 0·Σx
  for (std::uint32_t k = ctx.thread(); k < heads.width; k += ctx.threads()) {
    const double x = value(k);
    found[0] = std::fmax(found[0], std::fabs(x));
    found[1] += x * x, found[2] += x * 0.0;
  }
  block_reduce<1>(ctx, ctx.template shared<BlockShared>(), found);
  const bool usable = found[2] == 0 && found[0] < power_of_two(kMostExponent);
  const int exponent = usable ? line_exponent(found[0]) : 0;
  if (usable) {
    write_digits(ctx, value, heads.width, exponent, to, column);
  } else {
    write_nothing(ctx, to, column);
  }
  if (ctx.thread() != 0) return;
  const double unit = found[0] > 0 ? line_unit(exponent) : 0.0;
  norms[column] = usable ? LineNorms{found[1], unit * unit} : LineNorms{NAN, NAN};
}

}  // namespace driftgate::gpu::cuda
