#pragma once

#include "gpu/cuda/hidden_records.hpp"

/// Products of a tile of rows and a tile of columns in exact integers, by mma.m16n8k32 on signed bytes. A
/// warp computes 32 by 32 of them; the digits of a block pass through a ring of stages in shared memory.
namespace driftgate::gpu::cuda {

constexpr unsigned kWarpTile = 32;
constexpr unsigned kRowTiles = 2, kColumnTiles = 4;  ///< of 16 and of 8, in a warp's tile
constexpr unsigned kLevels = 3;                      ///< products of digits i and j belong to level i + j

template <unsigned Down, unsigned Across>
struct TileShape {
  static constexpr unsigned kDown = Down, kAcross = Across;  ///< warps
  static constexpr unsigned kThreads = 32 * Down * Across;
  static constexpr unsigned kRows = kWarpTile * Down, kColumns = kWarpTile * Across;
  static constexpr unsigned kStageBytes = kDigitCount * (kRows + kColumns) * kChunk;
};

/// The operands of a warp for 32 elements of width that one thread holds: the registers of mma for each digit
/// and tile.
struct Fragments {
  std::uint32_t a[kDigitCount][kRowTiles][4];
  std::uint32_t b[kDigitCount][kColumnTiles][2];
};
/// Sums of each level, in the register layout of mma.
struct Accumulators {
  int values[kLevels][kRowTiles][kColumnTiles][4];
};

/// The operands of one product of a tile.
struct Operands {
  DigitLines rows, columns;
};

/// Starts to copy one chunk of `Lines` lines to shared memory.
template <unsigned Lines, unsigned Threads, class Ctx>
DRIFTGATE_HD void load_lines(Ctx& ctx, const DigitLines& from, std::uint32_t first, std::uint32_t chunk,
                             unsigned char* to) {
  constexpr unsigned kEach = Lines * (kChunk / 16);  // of a digit, in units of 16 bytes
  static_assert(kEach % Threads == 0);
  const std::uint64_t digit_bytes = std::uint64_t{from.lines} * kChunk;
  const unsigned own = ctx.thread() * 16;
  const signed char* source = from.digits + chunk * (kDigitCount * digit_bytes) + first * kChunk + own;
  to += own;
  DRIFTGATE_UNROLL
  for (unsigned digit = 0; digit < kDigitCount; ++digit, source += digit_bytes) {
    DRIFTGATE_UNROLL
    for (unsigned i = 0; i < kEach; i += Threads)
      ctx.copy_async(to + (digit * kEach + i) * 16, source + i * 16);
  }
}

/// Starts to copy one chunk of both operands to a stage.
template <class Shape, class Ctx>
DRIFTGATE_HD void load_stage(Ctx& ctx, const Operands& from, std::uint32_t first_row,
                             std::uint32_t first_column, std::uint32_t chunk, unsigned char* stage) {
  load_lines<Shape::kRows, Shape::kThreads>(ctx, from.rows, first_row, chunk, stage);
  load_lines<Shape::kColumns, Shape::kThreads>(ctx, from.columns, first_column, chunk,
                                               stage + kDigitCount * Shape::kRows * kChunk);
}

/// Reads the fragments of half a chunk.
template <class Shape, class Ctx>
DRIFTGATE_HD void read_fragments(Ctx& ctx, const unsigned char* stage, unsigned half, Fragments& out) {
  const unsigned lane = ctx.thread() % 32, warp = ctx.thread() / 32;
  const unsigned down = warp / Shape::kAcross * 2, across = warp % Shape::kAcross * 2;
  const unsigned char* const mine = stage + half * 512 + lane * 16;
  DRIFTGATE_UNROLL
  for (unsigned digit = 0; digit < kDigitCount; ++digit) {
    const unsigned char* rows = mine + digit * Shape::kRows * kChunk;
    const unsigned char* columns = mine + (kDigitCount * Shape::kRows + digit * Shape::kColumns) * kChunk;
    DRIFTGATE_UNROLL
    for (unsigned m = 0; m < kRowTiles; ++m) {
      const Vector words = *reinterpret_cast<const Vector*>(rows + (down + m) * 16 * kChunk);
      DRIFTGATE_UNROLL
      for (unsigned i = 0; i < 4; ++i) out.a[digit][m][i] = words.words[i];
    }
    DRIFTGATE_UNROLL
    for (unsigned n = 0; n < kColumnTiles; n += 2) {
      const Vector words = *reinterpret_cast<const Vector*>(columns + (across + n / 2) * 16 * kChunk);
      out.b[digit][n][0] = words.words[0], out.b[digit][n][1] = words.words[1];
      out.b[digit][n + 1][0] = words.words[2], out.b[digit][n + 1][1] = words.words[3];
    }
  }
  ctx.publish(out);
}

/// Adds the products of digits i and j to a level.
template <class Ctx>
DRIFTGATE_HD void multiply_digits(Ctx& ctx, const Fragments& from, unsigned i, unsigned j,
                                  int (&to)[kRowTiles][kColumnTiles][4]) {
  DRIFTGATE_UNROLL
  for (unsigned m = 0; m < kRowTiles; ++m) {
    DRIFTGATE_UNROLL
    for (unsigned n = 0; n < kColumnTiles; ++n) ctx.mma(to[m][n], from.a[i][m], from.b[j][n]);
  }
}

/// Multiplies one stage. `deep`: also the products of the fourth order, into the sums of the last level.
template <class Shape, class Ctx>
DRIFTGATE_HD void multiply_stage(Ctx& ctx, const unsigned char* stage, bool deep, Accumulators& sums) {
  DRIFTGATE_NO_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    Fragments fragments;
    read_fragments<Shape>(ctx, stage, half, fragments);
    if (deep) {
      multiply_digits(ctx, fragments, 1, 2, sums.values[2]);
      multiply_digits(ctx, fragments, 2, 1, sums.values[2]);
      continue;
    }
    DRIFTGATE_UNROLL
    for (unsigned level = kLevels; level-- > 0;) {
      DRIFTGATE_UNROLL
      for (unsigned i = 0; i <= level; ++i) multiply_digits(ctx, fragments, i, level - i, sums.values[level]);
    }
  }
}

DRIFTGATE_HD void clear(Accumulators& sums) {
  DRIFTGATE_UNROLL
  for (unsigned level = 0; level < kLevels; ++level) {
    DRIFTGATE_UNROLL
    for (unsigned m = 0; m < kRowTiles; ++m) {
      DRIFTGATE_UNROLL
      for (unsigned n = 0; n < kColumnTiles; ++n) {
        DRIFTGATE_UNROLL
        for (unsigned i = 0; i < 4; ++i) sums.values[level][m][n][i] = 0;
      }
    }
  }
}

/// Rounds the sums of the fourth order to units of the third.
DRIFTGATE_HD void carry(Accumulators& sums) {
  DRIFTGATE_UNROLL
  for (unsigned m = 0; m < kRowTiles; ++m) {
    DRIFTGATE_UNROLL
    for (unsigned n = 0; n < kColumnTiles; ++n) {
      DRIFTGATE_UNROLL
      for (unsigned i = 0; i < 4; ++i) sums.values[2][m][n][i] = (sums.values[2][m][n][i] + 128) >> 8;
    }
  }
}

/// Combines the levels into one number, in units of the product of the first digits.
DRIFTGATE_HD float joined(const Accumulators& sums, unsigned m, unsigned n, unsigned i) {
  const float low = fmaf(static_cast<float>(sums.values[2][m][n][i]), 1.0F / 256,
                         static_cast<float>(sums.values[1][m][n][i]));
  return fmaf(low, 1.0F / 256, static_cast<float>(sums.values[0][m][n][i]));
}

}  // namespace driftgate::gpu::cuda
