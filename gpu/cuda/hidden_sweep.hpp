#pragma once

#include "gpu/cuda/hidden_product.hpp"
#include "gpu/cuda/hidden_sums.hpp"

/// A sweep over the columns of a block of rows: computes products and adds their terms to the sums of the
/// rows.
namespace driftgate::gpu::cuda {

enum class HiddenSweep { sample, first, second };

constexpr unsigned kMostSweepSums = kHiddenSecond > kHiddenFirst ? kHiddenSecond : kHiddenFirst;
constexpr unsigned kMostSweepRanges = kHeads;
/// The rows of the tile of a warp that belong to a thread: index 2·m + half is row 16·m + 8·half + lane/4.
constexpr unsigned kThreadRows = 2 * kRowTiles;

/// Shared memory after the stages. Sums and ranges of a row over the columns of one warp belong to one
/// thread: the one whose number in its group of four is that of the row.
template <class Shape>
struct SweepShared {
  double sums[kMostSweepSums][Shape::kThreads];
  float low[kMostSweepRanges][Shape::kThreads], high[kMostSweepRanges][Shape::kThreads];
  std::uint32_t deep, wanted;
};

/// The products of a thread: of logits and of drifts.
struct Products {
  float z[kRowTiles][kColumnTiles][4], drift[kRowTiles][kColumnTiles][4];
};

/// Adds four values over a group of four threads: thread t gets the sum of value t.
template <class Ctx>
DRIFTGATE_HD float group_sum(Ctx& ctx, const float (&values)[4]) {
  const bool upper = (ctx.thread() & 2U) != 0, odd = (ctx.thread() & 1U) != 0;
  const float first = (upper ? values[2] : values[0]) + ctx.shuffle_xor(upper ? values[0] : values[2], 2);
  const float second = (upper ? values[3] : values[1]) + ctx.shuffle_xor(upper ? values[1] : values[3], 2);
  return (odd ? second : first) + ctx.shuffle_xor(odd ? first : second, 1);
}
template <class Ctx>
DRIFTGATE_HD float group_max(Ctx& ctx, const float (&values)[4]) {
  const bool upper = (ctx.thread() & 2U) != 0, odd = (ctx.thread() & 1U) != 0;
  const float first =
      larger(upper ? values[2] : values[0], ctx.shuffle_xor(upper ? values[0] : values[2], 2));
  const float second =
      larger(upper ? values[3] : values[1], ctx.shuffle_xor(upper ? values[1] : values[3], 2));
  return larger(odd ? second : first, ctx.shuffle_xor(odd ? first : second, 1));
}
/// The same value in all four threads.
template <class Ctx, class T, class Join>
DRIFTGATE_HD T group_all(Ctx& ctx, T value, Join join) {
  value = join(value, ctx.shuffle_xor(value, 1));
  return join(value, ctx.shuffle_xor(value, 2));
}

/// One tile of the sequence of tiles that a block processes (its walk).
struct TilePlace {
  std::uint32_t first_row, first_column;
  std::uint32_t sample;  ///< number of the tile among those of the walk
};

template <class Shape, class Ctx>
class SweepBlock {
 public:
  DRIFTGATE_HD SweepBlock(Ctx& ctx, const HeadsView& heads, const HiddenBatch& batch,
                          const HiddenScratch& scratch, std::uint32_t first_row)
      : ctx_(ctx), heads_(heads), batch_(batch), scratch_(scratch), first_row_(first_row) {}

  /// The row in the batch of one of the rows of the thread, and the row whose sums the thread keeps.
  DRIFTGATE_HD std::uint32_t row_of(unsigned index) const {
    const unsigned lane = ctx_.thread() % 32, down = ctx_.thread() / 32 / Shape::kAcross;
    return first_row_ + down * kWarpTile + index / 2 * 16 + index % 2 * 8 + lane / 4;
  }
  DRIFTGATE_HD std::uint32_t warp_column() const { return ctx_.thread() / 32 % Shape::kAcross * kWarpTile; }
  /// The column, in the tile, of register `i` of column tile `n`.
  DRIFTGATE_HD std::uint32_t column_of(unsigned n, unsigned i) const {
    return warp_column() + n * 8 + ctx_.thread() % 4 * 2 + i % 2;
  }
  DRIFTGATE_HD HiddenFrame frame_of(unsigned index) const {
    const std::uint32_t row = row_of(index);
    return row < batch_.rows ? scratch_.frames[row] : HiddenFrame{};
  }
  DRIFTGATE_HD SweepShared<Shape>& shared() { return ctx_.template shared<SweepShared<Shape>>(); }

  /// Visits the thread's columns of one of its rows: visit(pair, column, bit of the mask).
  template <class Visit>
  DRIFTGATE_HD void visit(const Products& products, const TilePlace& tile, unsigned index, float c,
                          Visit&& visit) {
    const std::uint32_t row = row_of(index);
    const HiddenInfo info = row < batch_.rows ? scratch_.info[row] : HiddenInfo{};
    DRIFTGATE_UNROLL
    for (unsigned n = 0; n < kColumnTiles; ++n) {
      DRIFTGATE_UNROLL
      for (unsigned i = 0; i < 2; ++i) {
        const std::uint32_t column = tile.first_column + column_of(n, i);
        if (column >= heads_.columns) continue;
        float z = products.z[index / 2][n][index % 2 * 2 + i],
              drift = products.drift[index / 2][n][index % 2 * 2 + i];
        if (heads_.narrow_bias != nullptr)
          z += heads_.narrow_bias[column], drift += heads_.narrow_drift[column];
        visit(narrow_pair(heads_, info, c, z, drift), n * 8 + ctx_.thread() % 4 * 2 + i);
      }
    }
  }

  DRIFTGATE_HD void clear_shared(bool second) {
    SweepShared<Shape>& mine = shared();
    for (unsigned i = 0; i < kMostSweepSums; ++i) mine.sums[i][ctx_.thread()] = 0;
    for (unsigned i = 0; i < kMostSweepRanges; ++i) {
      mine.low[i][ctx_.thread()] = kHugeFloat, mine.high[i][ctx_.thread()] = -kHugeFloat;
    }
    if (ctx_.thread() == 0) mine.deep = mine.wanted = 0;
    ctx_.sync();
    for (unsigned i = ctx_.thread(); i < Shape::kRows; i += Shape::kThreads) {
      const std::uint32_t row = first_row_ + i;
      if (row >= batch_.rows) continue;
      if (scratch_.info[row].deep != 0) ctx_.add(&mine.deep, 1U);
      if (second && scratch_.states[row].second != 0) ctx_.add(&mine.wanted, 1U);
    }
    ctx_.sync();
  }

  DRIFTGATE_HD void sample_tile(const Products& products, const TilePlace& tile);
  DRIFTGATE_HD void first_tile(const Products& products, const TilePlace& tile);
  DRIFTGATE_HD void second_tile(const Products& products, const TilePlace& tile);

  /// Writes the share of this walk in row `row` of the block, over the warps in order.
  template <unsigned Sums, unsigned Ranges, class Record>
  DRIFTGATE_HD void collect(Record* records, std::uint32_t split);

 private:
  DRIFTGATE_HD std::uint32_t* mask_of(std::uint32_t row, const TilePlace& tile) const {
    return scratch_.masks + std::uint64_t{row} * scratch_.words + (tile.first_column + warp_column()) / 32;
  }
  Ctx& ctx_;
  const HeadsView& heads_;
  const HiddenBatch& batch_;
  const HiddenScratch& scratch_;
  std::uint32_t first_row_;
};

template <class Shape, class Ctx>
DRIFTGATE_HD void SweepBlock<Shape, Ctx>::sample_tile(const Products& products, const TilePlace& tile) {
  DRIFTGATE_UNROLL
  for (unsigned index = 0; index < kThreadRows; ++index) {
    float top_z = -kHugeFloat, top_y = -kHugeFloat;
    visit(products, tile, index, 0.0F, [&](const NarrowPair& pair, unsigned) {
      top_z = larger(top_z, pair.z), top_y = larger(top_y, pair.z - pair.d);
    });
    const auto most = [](float a, float b) { return larger(a, b); };
    top_z = group_all(ctx_, top_z, most), top_y = group_all(ctx_, top_y, most);
    float mass_z = 0, mass_y = 0, drift = 0;
    visit(products, tile, index, 0.0F, [&](const NarrowPair& pair, unsigned) {
      const float e = exp2_fast((pair.z - top_z) * kLog2e);
      mass_z += e;
      mass_y += exp2_fast((pair.z - pair.d - top_y) * kLog2e);
      drift = fmaf(e, pair.d, drift);
    });
    const auto plus = [](float a, float b) { return a + b; };
    mass_z = group_all(ctx_, mass_z, plus), mass_y = group_all(ctx_, mass_y, plus);
    drift = group_all(ctx_, drift, plus);
    const std::uint32_t row = row_of(index);
    if (ctx_.thread() % 4 != 0 || row >= batch_.rows) continue;
    const std::uint32_t part = tile.sample * Shape::kAcross + ctx_.thread() / 32 % Shape::kAcross;
    scratch_.sampled[std::uint64_t{row} * scratch_.samples + part] = {top_z, top_y, mass_z, mass_y, drift};
  }
}

template <class Shape, class Ctx>
DRIFTGATE_HD void SweepBlock<Shape, Ctx>::first_tile(const Products& products, const TilePlace& tile) {
  FirstTerms terms[kThreadRows];
  DRIFTGATE_UNROLL
  for (unsigned index = 0; index < kThreadRows; ++index) {
    const HiddenFrame frame = frame_of(index);
    std::uint32_t mask = 0;
    visit(products, tile, index, frame.c, [&](const NarrowPair& pair, unsigned bit) {
      // NaN is computed in float64 too, where it is detected.
      if (pair.z <= frame.floor_z && pair.z - pair.d <= frame.floor_y) {
        add_first(pair.z - frame.m, pair.d, terms[index]);
      } else {
        mask |= 1U << bit;
      }
    });
    mask = group_all(ctx_, mask, [](std::uint32_t a, std::uint32_t b) { return a | b; });
    const std::uint32_t row = row_of(index);
    if (ctx_.thread() % 4 == 0 && row < batch_.rows) *mask_of(row, tile) = mask;
  }
  SweepShared<Shape>& mine = shared();
  const unsigned own = ctx_.thread();
  DRIFTGATE_UNROLL
  for (unsigned i = 0; i < kHiddenFirst; ++i) {
    const float values[4] = {terms[0].sums[i], terms[1].sums[i], terms[2].sums[i], terms[3].sums[i]};
    mine.sums[i][own] += static_cast<double>(group_sum(ctx_, values));
  }
  const float low[4] = {-terms[0].low, -terms[1].low, -terms[2].low, -terms[3].low};
  const float high[4] = {terms[0].high, terms[1].high, terms[2].high, terms[3].high};
  mine.low[0][own] = smaller(mine.low[0][own], -group_max(ctx_, low));
  mine.high[0][own] = larger(mine.high[0][own], group_max(ctx_, high));
}

template <class Shape, class Ctx>
DRIFTGATE_HD void SweepBlock<Shape, Ctx>::second_tile(const Products& products, const TilePlace& tile) {
  SecondTerms terms[kThreadRows];
  DRIFTGATE_UNROLL
  for (unsigned index = 0; index < kThreadRows; ++index) {
    terms[index] = no_second_terms();
    const HiddenFrame frame = frame_of(index);
    const std::uint32_t row = row_of(index), mask = row < batch_.rows ? *mask_of(row, tile) : 0;
    visit(products, tile, index, frame.c, [&](const NarrowPair& pair, unsigned bit) {
      if (((mask >> bit) & 1U) == 0) add_second(pair.z - frame.m, pair.d, frame, terms[index]);
    });
  }
  SweepShared<Shape>& mine = shared();
  const unsigned own = ctx_.thread();
  DRIFTGATE_UNROLL
  for (unsigned i = 0; i < kHiddenSecond; ++i) {
    const float values[4] = {terms[0].sums[i], terms[1].sums[i], terms[2].sums[i], terms[3].sums[i]};
    mine.sums[i][own] += static_cast<double>(group_sum(ctx_, values));
  }
  DRIFTGATE_UNROLL
  for (unsigned head = 0; head < kHeads; ++head) {
    const float low[4] = {-terms[0].low[head], -terms[1].low[head], -terms[2].low[head], -terms[3].low[head]};
    const float high[4] = {terms[0].high[head], terms[1].high[head], terms[2].high[head],
                           terms[3].high[head]};
    mine.low[head][own] = smaller(mine.low[head][own], -group_max(ctx_, low));
    mine.high[head][own] = larger(mine.high[head][own], group_max(ctx_, high));
  }
}

template <class Shape, class Ctx>
template <unsigned Sums, unsigned Ranges, class Record>
DRIFTGATE_HD void SweepBlock<Shape, Ctx>::collect(Record* records, std::uint32_t split) {
  const SweepShared<Shape>& mine = shared();
  ctx_.sync();
  for (unsigned local = ctx_.thread(); local < Shape::kRows; local += Shape::kThreads) {
    const std::uint32_t row = first_row_ + local;
    if (row >= batch_.rows) continue;
    const unsigned lane = local % 8 * 4 + local % kWarpTile / 8;
    Record out{};
    float low[Ranges], high[Ranges];
    for (unsigned i = 0; i < Ranges; ++i) low[i] = kHugeFloat, high[i] = -kHugeFloat;
    for (unsigned across = 0; across < Shape::kAcross; ++across) {
      const unsigned thread = (local / kWarpTile * Shape::kAcross + across) * 32 + lane;
      for (unsigned i = 0; i < Sums; ++i) out.sums[i] += mine.sums[i][thread];
      for (unsigned i = 0; i < Ranges; ++i) {
        low[i] = smaller(low[i], mine.low[i][thread]), high[i] = larger(high[i], mine.high[i][thread]);
      }
    }
    std::memcpy(&out.low, low, sizeof(low));
    std::memcpy(&out.high, high, sizeof(high));
    records[std::uint64_t{row} * scratch_.splits + split] = out;
  }
}

/// The products that a tile needs, one after the other: logits, drift, and under two heads the contribution
/// of the change of the head to the drift. Each is computed twice where the fourth order is needed.
struct Passes {
  std::uint32_t count;
  bool deep;
  DRIFTGATE_HD static Passes of(const HeadsView& heads, bool deep) {
    return {(heads.same ? 2U : 3U) * (deep ? 2U : 1U), deep};
  }
  DRIFTGATE_HD std::uint32_t product(std::uint32_t pass) const { return deep ? pass / 2 : pass; }
  DRIFTGATE_HD bool is_deep(std::uint32_t pass) const { return deep && pass % 2 == 0; }
};
DRIFTGATE_HD Operands operands_of(const HeadsView& heads, const HiddenScratch& scratch,
                                  std::uint32_t product) {
  if (product == 0) return {scratch.train_rows, heads.train_digits};
  if (product == 1) return {scratch.drift_rows, heads.same ? heads.train_digits : heads.inf_digits};
  return {scratch.train_rows, heads.change_digits};
}

/// Adds a completed product to the others of its kind.
template <class Shape, class Ctx>
DRIFTGATE_HD void fold(Ctx& ctx, const Accumulators& sums, const Operands& operands, std::uint32_t first_row,
                       std::uint32_t first_column, float (&to)[kRowTiles][kColumnTiles][4]) {
  const unsigned lane = ctx.thread() % 32, warp = ctx.thread() / 32;
  const float* rows = operands.rows.scales + first_row + warp / Shape::kAcross * kWarpTile + lane / 4;
  const float* columns =
      operands.columns.scales + first_column + warp % Shape::kAcross * kWarpTile + lane % 4 * 2;
  DRIFTGATE_UNROLL
  for (unsigned m = 0; m < kRowTiles; ++m) {
    const float scales[2] = {rows[m * 16], rows[m * 16 + 8]};
    DRIFTGATE_UNROLL
    for (unsigned n = 0; n < kColumnTiles; ++n) {
      const float of_columns[2] = {columns[n * 8], columns[n * 8 + 1]};
      DRIFTGATE_UNROLL
      for (unsigned i = 0; i < 4; ++i)
        to[m][n][i] += joined(sums, m, n, i) * scales[i / 2] * of_columns[i % 2];
    }
  }
}

/// Tiles [begin, end) of a walk as a flat sequence of chunks, so that loads can run ahead across the ends of
/// products.
struct Walk {
  std::uint32_t tile, pass, chunk;
};

/// Adds the sums of a product to those of the logits or of the drift.
template <class Shape, class Ctx>
DRIFTGATE_HD void fold_pass(Ctx& ctx, const Accumulators& sums, const Operands& operands, bool drift,
                            std::uint32_t first_row, std::uint32_t first_column, Products& to) {
  if (drift) {
    fold<Shape>(ctx, sums, operands, first_row, first_column, to.drift);
  } else {
    fold<Shape>(ctx, sums, operands, first_row, first_column, to.z);
  }
}

/// Processes block `row_block` of rows over share `split` of the columns (or of the sample). `ring` holds
/// `stages` stages, at least 2. Called by all threads of the block.
template <class Shape, HiddenSweep Kind, class Ctx>
DRIFTGATE_HD void sweep_rows(Ctx& ctx, const HeadsView& heads, const HiddenBatch& batch,
                             const HiddenScratch& scratch, std::uint32_t row_block, std::uint32_t split,
                             unsigned stages, unsigned char* ring) {
  const std::uint32_t first_row = row_block * Shape::kRows;
  SweepBlock<Shape, Ctx> block(ctx, heads, batch, scratch, first_row);
  block.clear_shared(Kind == HiddenSweep::second);
  if (Kind == HiddenSweep::second && block.shared().wanted == 0) return;
  const std::uint32_t walked = Kind == HiddenSweep::sample ? scratch.samples / Shape::kAcross : scratch.tiles;
  const std::uint32_t step = Kind == HiddenSweep::sample ? scratch.step : 1;
  const auto begin = static_cast<std::uint32_t>(std::uint64_t{walked} * split / scratch.splits);
  const auto end = static_cast<std::uint32_t>(std::uint64_t{walked} * (split + 1) / scratch.splits);
  const Passes passes = Passes::of(heads, block.shared().deep != 0);
  const std::uint32_t chunks = scratch.train_rows.chunks;

  Walk next{begin, 0, 0};
  unsigned load_slot = 0, slot = 0;
  const auto load_next = [&] {
    if (next.tile < end) {
      load_stage<Shape>(ctx, operands_of(heads, scratch, passes.product(next.pass)), first_row,
                        next.tile * step * Shape::kColumns, next.chunk,
                        ring + load_slot * Shape::kStageBytes);
      load_slot = load_slot + 1 == stages ? 0 : load_slot + 1;
      if (++next.chunk == chunks) {
        next.chunk = 0;
        if (++next.pass == passes.count) next.pass = 0, ++next.tile;
      }
    }
    ctx.commit();
  };
  for (unsigned i = 0; i + 1 < stages; ++i) load_next();

  Accumulators sums;
  clear(sums);
  for (std::uint32_t tile = begin; tile < end; ++tile) {
    Products products{};
    const std::uint32_t first_column = tile * step * Shape::kColumns;
    for (std::uint32_t pass = 0; pass < passes.count; ++pass) {
      for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
        ctx.wait(stages - 2);
        ctx.sync();  // the stage is complete, and no thread still reads the one that is loaded next
        load_next();
        multiply_stage<Shape>(ctx, ring + slot * Shape::kStageBytes, passes.is_deep(pass), sums);
        slot = slot + 1 == stages ? 0 : slot + 1;
      }
      if (passes.is_deep(pass)) {
        carry(sums);
        continue;
      }
      fold_pass<Shape>(ctx, sums, operands_of(heads, scratch, passes.product(pass)), passes.product(pass) != 0,
                       first_row, first_column, products);
      clear(sums);
    }
    const TilePlace place{first_row, first_column, tile};
    if constexpr (Kind == HiddenSweep::sample) block.sample_tile(products, place);
    if constexpr (Kind == HiddenSweep::first) block.first_tile(products, place);
    if constexpr (Kind == HiddenSweep::second) block.second_tile(products, place);
  }
  if constexpr (Kind == HiddenSweep::first) block.template collect<kHiddenFirst, 1>(scratch.first, split);
  if constexpr (Kind == HiddenSweep::second)
    block.template collect<kHiddenSecond, kHeads>(scratch.second, split);
}

}  // namespace driftgate::gpu::cuda
