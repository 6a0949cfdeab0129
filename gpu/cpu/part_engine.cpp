#include "gpu/cpu/part_engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/cpu/moment_merge.hpp"
#include "gpu/cpu/row_engine.hpp"
#include "gpu/cpu/row_figures.hpp"

namespace driftgate::gpu::cpu {

namespace {

static_assert(kHeads == DRIFTGATE_HEADS);

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

/// The logits of the target token, if its column belongs to the part.
void write_token(const RowColumns& columns, const std::int64_t* token, driftgate_shard_partial& out) {
  if (token == nullptr) return;
  const std::int64_t column = *token - columns.first_id;
  if (column < 0 || column >= columns.count) return;
  out.has_token = 1;
  out.token_train = logit_at(columns.train, columns.train_dtype, column);
  out.token_inf = logit_at(columns.inf, columns.inf_dtype, column);
}

}  // namespace

void KeptParts::resize(std::size_t parts, std::size_t tiles) {
  tiles_ = tiles;
  const auto grow = [](auto& values, std::size_t size) {
    if (values.size() < size) values.resize(size);
  };
  grow(values_, parts * tiles * kTileFloats);
  grow(tile_, parts * tiles);
  grow(frames_, parts * tiles);
  grow(moments_, parts);
  grow(forms_, parts);
}

KeptPart KeptParts::at(std::size_t part) {
  return {{values_.data() + part * tiles_ * kTileFloats, tiles_ * kTileFloats},
          {tile_.data() + part * tiles_, tiles_},
          {frames_.data() + part * tiles_, tiles_},
          &moments_[part],
          &forms_[part]};
}

PartEngine::PartEngine(const TileKernel& kernel, std::uint32_t top_k, std::uint32_t metrics)
    : kernel_(kernel),
      widened_(kernel),
      capacity_(std::max<std::uint32_t>(top_k, 2)),
      core_(metrics == DRIFTGATE_METRICS_CORE),
      wide_(3 * kTileColumns),
      narrow_(2 * kTileColumns),
      train_(capacity_),
      inf_(capacity_) {
  if (kernel.moments != nullptr) moments_.emplace(*kernel.moments, top_k, core_);
}

Tile PartEngine::blank_tile(bool narrow) {
  double* base = wide_.data();
  Tile tile{base, base + kTileColumns, base + 2 * kTileColumns, 0, 0, 0, 0};
  if (narrow) tile.narrow_e = narrow_.data(), tile.narrow_drift = narrow_.data() + kTileColumns;
  return tile;
}

void PartEngine::pass1(const RowColumns& logits, const std::int64_t* token, const KeptPart& kept,
                       driftgate_shard_partial& out, std::span<driftgate_top_entry> top) {
  const RowColumns columns = widened_.of(logits);
  out = {};
  TopList train{train_.data(), capacity_, 0}, inf{inf_.data(), capacity_, 0};
  const bool summed =
      moments_ && moments_->sum_part(columns, {kept.values, kept.frames}, train, inf, *kept.moments, out);
  *kept.form = summed ? PartForm::moments : PartForm::tiles;
  if (!summed) sum_tiles(columns, kept, train, inf, out);
  write_token(columns, token, out);
  out.top_train = train.size;
  out.top_inf = inf.size;
  write_top(train, top.data());
  write_top(inf, top.data() + capacity_);
}

void PartEngine::sum_tiles(const RowColumns& columns, const KeptPart& kept, TopList& train, TopList& inf,
                           driftgate_shard_partial& out) {
  train.size = inf.size = 0;
  out.nonfinite = 0;
  Pass1 sums{};
  bool any = false, narrow = false;
  for (std::size_t i = 0; i < columns.tiles(); ++i) {
    Tile tile = blank_tile(false);
    if (*kept.form == PartForm::tiles) {
      tile.narrow_e = kept.values.data() + i * KeptParts::kTileFloats;
      tile.narrow_drift = tile.narrow_e + kTileColumns;
    }
    Pass1 part{};
    const std::uint64_t nonfinite = kernel_.pass1(columns.tile(i), tile, train, inf, part);
    kept.tiles[i] = tile;
    narrow = narrow || tile.narrow;
    out.nonfinite += nonfinite;
    if (nonfinite == 0 && tile.count > 0) add(sums, part, any);
  }
  constexpr double kSmallDrift = 1;  // up to which float32 sums give an accurate offset
  const bool far = any && narrow && out.nonfinite == 0 && sums.max_drift - sums.min_drift > kSmallDrift;
  if (far && !balance(columns, kept, sums)) {
    *kept.form = PartForm::wide_tiles;
    return sum_tiles(columns, kept, train, inf, out);
  }
  out.sums = packed(sums);
}

/// Like RowEngine::finish_narrow, for a single part: corrects the offset between its own masses of p and q by
/// a second pass, so that parts can be merged before pass 2 of the row. Returns false when that is not
/// possible.
bool PartEngine::balance(const RowColumns& columns, const KeptPart& kept, Pass1& sums) {
  constexpr double kBalanced = 4e-7, kHopeless = 0.5;
  driftgate_shard_row about{};
  about.sums.c = sums.c, about.offset = offset_of(sums), about.lse = log_sum(sums);
  for (int attempt = 0;; ++attempt) {
    Pass2 terms{};
    choose_heads(sums, terms);
    add_terms(columns, kept, about, terms);
    const bool done = std::abs(terms.balance) <= kBalanced * terms.tv;
    if (!done && (attempt > 0 || !(std::abs(terms.balance) < kHopeless))) return false;
    about.offset += std::log1p(terms.balance);
    if (done) break;
  }
  sums.g = std::expm1(about.offset) * sums.l_p + sums.s;
  sums.h = std::expm1(-about.offset) * sums.l_q - sums.t;
  return std::isfinite(sums.g) && std::isfinite(sums.h);
}

void PartEngine::pass2(const RowColumns& logits, const KeptPart& kept, const driftgate_shard_row& merged,
                       driftgate_shard_terms& out) {
  out = {};
  if (merged.skip != 0) return;
  if (merged.by_moments == 0 || (*kept.form != PartForm::moments && !core_)) {
    tile_terms(widened_.of(logits), kept, merged, out);
  } else if (!core_) {
    moments_->part_terms(logits, {kept.values, kept.frames}, *kept.moments, merged, out);
  }
  if (merged.exact != 0) out.exact = packed(exact_sums(widened_.of(logits)));
}

void PartEngine::tile_terms(const RowColumns& columns, const KeptPart& kept,
                            const driftgate_shard_row& merged, driftgate_shard_terms& out) {
  Pass2 sums{};
  set_heads(merged.least_p, sums);
  add_terms(columns, kept, merged, sums);
  out.kl_train_inf = sums.kl_train_inf, out.kl_inf_train = sums.kl_inf_train;
  out.tv = sums.tv, out.js = sums.js, out.hellinger2 = sums.hellinger2, out.chi2 = sums.chi2;
  write_heads(sums, out);
}

void PartEngine::add_terms(const RowColumns& columns, const KeptPart& kept, const driftgate_shard_row& about,
                           Pass2& sums) {
  for (std::size_t i = 0; i < columns.tiles(); ++i) {
    Tile tile = blank_tile(*kept.form != PartForm::wide_tiles);
    if (*kept.form == PartForm::tiles && kept.tiles[i].narrow) {
      const Tile blank = tile;
      tile = kept.tiles[i];
      // The float64 scratch belongs to the thread of pass 1, and the logits may have moved since.
      tile.z = blank.z, tile.drift = blank.drift, tile.e = blank.e;
      tile.input = columns.tile(i);
    } else {
      TopEntry ignored[2];
      TopList train{&ignored[0], 1, 0}, inf{&ignored[1], 1, 0};
      Pass1 part;
      kernel_.pass1(columns.tile(i), tile, train, inf, part);
    }
    if (tile.count > 0) kernel_.pass2(tile, about.sums.c, about.offset, about.lse, sums);
  }
}

Pass1 PartEngine::exact_sums(const RowColumns& columns) {
  TopEntry ignored[2];
  Pass1 sums{};
  bool any = false;
  for (std::size_t i = 0; i < columns.tiles(); ++i) {
    Tile tile = blank_tile(false);
    TopList train{&ignored[0], 1, 0}, inf{&ignored[1], 1, 0};
    Pass1 part{};
    kernel_.pass1(columns.tile(i), tile, train, inf, part);
    if (tile.count > 0) add(sums, part, any);
  }
  return sums;
}

}  // namespace driftgate::gpu::cpu
