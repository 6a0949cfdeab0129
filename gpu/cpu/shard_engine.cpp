#include "gpu/cpu/shard_engine.hpp"

#include <algorithm>
#include <limits>
#include <thread>

#include "gpu/cpu/row_engine.hpp"
#include "gpu/cpu/row_figures.hpp"

namespace driftgate::gpu::cpu {

namespace {

static_assert(kHeads == DRIFTGATE_HEADS);

constexpr std::size_t kTileFloats = 2 * kTileColumns;

std::size_t tiles_of(std::uint32_t columns) {
  return (columns + kTileColumns - 1) / kTileColumns;
}

TileInput input_of(const driftgate_batch& batch, const driftgate_shard& shard, std::uint64_t row,
                   std::size_t tile) {
  const std::size_t first = tile * kTileColumns;
  const auto part = [&](const driftgate_logits& logits) {
    return static_cast<const unsigned char*>(logits.data) + row * logits.row_stride_bytes +
           first * element_bytes(logits.dtype);
  };
  return {part(batch.train),
          part(batch.inf),
          batch.train.dtype,
          batch.inf.dtype,
          static_cast<std::uint32_t>(std::min<std::size_t>(kTileColumns, batch.vocabulary - first)),
          static_cast<std::uint32_t>(shard.first_column + first),
          batch.temperature};
}

/// Adds the sums of a tile to those of the tiles before it.
void add(Pass1& into, const Pass1& tile, bool& any) {
  if (any) {
    merge(into, tile);
  } else {
    into = tile;
  }
  any = true;
}

void write_top(const TopList& list, driftgate_top_entry* out) {
  for (std::uint32_t i = 0; i < list.size; ++i) out[i] = {list.entries[i].value, list.entries[i].id, 0};
}

/// The realised token's logits, if it is one of the columns held.
void write_token(const driftgate_batch& batch, const driftgate_shard& shard, std::uint64_t row,
                 driftgate_shard_partial& out) {
  if (batch.tokens == nullptr) return;
  const std::int64_t column = batch.tokens[row] - shard.first_column;
  if (column < 0 || column >= batch.vocabulary) return;
  const auto logit = [&](const driftgate_logits& logits) {
    const auto* from = static_cast<const unsigned char*>(logits.data) + row * logits.row_stride_bytes;
    return logit_at(from, logits.dtype, column);
  };
  out.has_token = 1;
  out.token_train = logit(batch.train);
  out.token_inf = logit(batch.inf);
}

}  // namespace

driftgate_pass1 packed(const Pass1& s) {
  return {s.m_p, s.l_p, s.s, s.g,         s.a_p,       s.m_q, s.l_q,        s.t,
          s.h,   s.a_q, s.c, s.min_drift, s.max_drift, s.n,   s.mean_drift, s.m2};
}

Pass1 unpacked(const driftgate_pass1& s) {
  Pass1 out{};
  out.m_p = s.m_p, out.l_p = s.l_p, out.s = s.s, out.g = s.g, out.a_p = s.a_p;
  out.m_q = s.m_q, out.l_q = s.l_q, out.t = s.t, out.h = s.h, out.a_q = s.a_q;
  out.c = s.c, out.min_drift = s.min_drift, out.max_drift = s.max_drift;
  out.n = s.n, out.mean_drift = s.mean_drift, out.m2 = s.m2;
  return out;
}

ShardEngine::ShardEngine(const TileKernel& kernel, std::uint32_t threads, std::uint32_t top_k)
    : kernel_(kernel), capacity_(std::max<std::uint32_t>(top_k, 2)), scratch_(threads) {
  for (Scratch& scratch : scratch_) {
    scratch.wide.resize(3 * kTileColumns);
    scratch.narrow.resize(kTileFloats);
    scratch.train.resize(capacity_);
    scratch.inf.resize(capacity_);
  }
}

template <typename Work>
void ShardEngine::for_each_row(std::uint64_t rows, Work work) {
  const auto threads = static_cast<std::size_t>(std::clamp<std::uint64_t>(rows, 1, scratch_.size()));
  const auto run = [&](std::size_t thread) {
    const std::uint64_t end = rows * (thread + 1) / threads;
    for (std::uint64_t row = rows * thread / threads; row < end; ++row) work(row, scratch_[thread]);
  };
  std::vector<std::jthread> others;
  for (std::size_t thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
}

void ShardEngine::prepare(Slot& slot, const driftgate_batch& batch, const driftgate_shard& shard) const {
  const std::size_t tiles = tiles_of(batch.vocabulary);
  const std::size_t row_bytes = tiles * kTileFloats * sizeof(float);
  slot.rows = batch.rows;
  slot.kept_rows = std::min<std::uint64_t>(batch.rows, kMaxKeptBytes / row_bytes);
  slot.vocabulary = batch.vocabulary;
  slot.first_column = shard.first_column;
  const auto kept = static_cast<std::size_t>(slot.kept_rows) * tiles;
  if (slot.tiles.size() < kept) slot.tiles.resize(kept);
  if (slot.values.size() < kept * kTileFloats) slot.values.resize(kept * kTileFloats);
}

Tile ShardEngine::blank_tile(Scratch& scratch, bool narrow) const {
  double* base = scratch.wide.data();
  Tile tile{base, base + kTileColumns, base + 2 * kTileColumns, 0, 0, 0, 0};
  if (narrow) {
    tile.narrow_e = scratch.narrow.data();
    tile.narrow_drift = tile.narrow_e + kTileColumns;
  }
  return tile;
}

void ShardEngine::pass1(const driftgate_batch& batch, const driftgate_shard& shard,
                        std::span<driftgate_shard_partial> partials, std::span<driftgate_top_entry> top) {
  Slot& slot = slots_[shard.slot];
  prepare(slot, batch, shard);
  for_each_row(batch.rows, [&](std::uint64_t row, Scratch& scratch) {
    const std::size_t places = 2 * std::size_t{capacity_};
    pass1_row({batch, shard, row}, slot, scratch, partials[row], top.subspan(row * places, places));
  });
}

void ShardEngine::pass1_row(const Row& row, Slot& slot, Scratch& scratch, driftgate_shard_partial& out,
                            std::span<driftgate_top_entry> top) const {
  const auto& [batch, shard, index] = row;
  out = {};
  TopList train{scratch.train.data(), capacity_, 0};
  TopList inf{scratch.inf.data(), capacity_, 0};
  Pass1 sums{};
  bool any = false;
  const std::size_t tiles = tiles_of(batch.vocabulary);
  for (std::size_t i = 0; i < tiles; ++i) {
    Tile tile = blank_tile(scratch, true);
    const std::size_t at = static_cast<std::size_t>(index) * tiles + i;
    const bool kept = index < slot.kept_rows;
    if (kept) {
      tile.narrow_e = slot.values.data() + at * kTileFloats;
      tile.narrow_drift = tile.narrow_e + kTileColumns;
    }
    Pass1 part{};
    const std::uint64_t nonfinite = kernel_.pass1(input_of(batch, shard, index, i), tile, train, inf, part);
    if (kept) slot.tiles[at] = tile;
    out.nonfinite += nonfinite;
    if (nonfinite == 0 && tile.count > 0) add(sums, part, any);
  }
  out.sums = packed(sums);
  write_token(batch, shard, index, out);
  out.top_train = train.size;
  out.top_inf = inf.size;
  write_top(train, top.data());
  write_top(inf, top.data() + capacity_);
}

bool ShardEngine::follows(const driftgate_batch& batch, const driftgate_shard& shard) const {
  const Slot& slot = slots_[shard.slot];
  return slot.rows == batch.rows && slot.vocabulary == batch.vocabulary &&
         slot.first_column == shard.first_column;
}

void ShardEngine::pass2(const driftgate_batch& batch, const driftgate_shard& shard,
                        std::span<const driftgate_shard_row> rows, std::span<driftgate_shard_terms> terms) {
  Slot& slot = slots_[shard.slot];
  for_each_row(batch.rows, [&](std::uint64_t row, Scratch& scratch) {
    terms[row] = {};
    if (rows[row].skip == 0) pass2_row({batch, shard, row}, slot, scratch, rows[row], terms[row]);
  });
}

void ShardEngine::pass2_row(const Row& row, Slot& slot, Scratch& scratch, const driftgate_shard_row& merged,
                            driftgate_shard_terms& out) const {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  Pass2 sums{};
  for (std::size_t i = 0; i < kHeads; ++i) sums.heads[i] = {merged.least_p[i], kFar, -kFar, 0, 0};
  const std::size_t tiles = tiles_of(row.batch.vocabulary);
  for (std::size_t i = 0; i < tiles; ++i) {
    Tile tile = blank_tile(scratch, true);
    const std::size_t at = static_cast<std::size_t>(row.index) * tiles + i;
    if (row.index < slot.kept_rows && slot.tiles[at].narrow) {
      const Tile kept = slot.tiles[at];
      tile = kept;
      // The float64 scratch is that of the thread of pass 1.
      const Tile blank = blank_tile(scratch, false);
      tile.z = blank.z, tile.drift = blank.drift, tile.e = blank.e;
    } else {
      TopEntry ignored[2];
      TopList train{&ignored[0], 1, 0}, inf{&ignored[1], 1, 0};
      Pass1 part;
      kernel_.pass1(input_of(row.batch, row.shard, row.index, i), tile, train, inf, part);
    }
    if (tile.count > 0) kernel_.pass2(tile, merged.sums.c, merged.offset, merged.lse, sums);
  }
  out.kl_train_inf = sums.kl_train_inf, out.kl_inf_train = sums.kl_inf_train;
  out.tv = sums.tv, out.js = sums.js, out.hellinger2 = sums.hellinger2, out.chi2 = sums.chi2;
  for (std::size_t i = 0; i < kHeads; ++i) {
    const HeadSums& head = sums.heads[i];
    out.heads[i] = {head.min_d, head.max_d, head.tail_p, head.tail_q};
  }
  if (merged.exact != 0) out.exact = packed(exact_sums(row, scratch));
}

Pass1 ShardEngine::exact_sums(const Row& row, Scratch& scratch) const {
  TopEntry ignored[2];
  Pass1 sums{};
  bool any = false;
  for (std::size_t i = 0; i < tiles_of(row.batch.vocabulary); ++i) {
    Tile tile = blank_tile(scratch, false);
    TopList train{&ignored[0], 1, 0}, inf{&ignored[1], 1, 0};
    Pass1 part{};
    kernel_.pass1(input_of(row.batch, row.shard, row.index, i), tile, train, inf, part);
    if (tile.count > 0) add(sums, part, any);
  }
  return sums;
}

}  // namespace driftgate::gpu::cpu
