#include "gpu/cpu/shard_engine.hpp"

#include <algorithm>

namespace driftgate::gpu::cpu {

ShardEngine::ShardEngine(const TileKernel& kernel, std::uint32_t threads, std::uint32_t top_k,
                         std::uint32_t metrics)
    : places_(2 * std::max<std::size_t>(top_k, 2)),
      core_(metrics == DRIFTGATE_METRICS_CORE),
      pool_(std::make_unique<ThreadPool>(threads)) {
  for (std::uint32_t i = 0; i < threads; ++i) {
    threads_.push_back({PartEngine(kernel, top_k, metrics), {}, std::vector<driftgate_top_entry>(places_)});
  }
}

template <typename Work>
void ShardEngine::for_each_row(std::uint64_t rows, Work work) {
  pool_->run([&](std::size_t thread) {
    const std::uint64_t end = rows * (thread + 1) / threads_.size();
    for (std::uint64_t row = rows * thread / threads_.size(); row < end; ++row) work(row, threads_[thread]);
  });
}

void ShardEngine::prepare(Slot& slot, const driftgate_batch& batch, const driftgate_shard& shard) {
  const std::size_t tiles = RowColumns::tiles_of(batch.vocabulary);
  const std::size_t row_bytes = tiles * KeptParts::kTileFloats * sizeof(float);
  slot.rows = batch.rows;
  // Core metrics seldom need pass 2.
  slot.kept_rows = core_ ? 0 : std::min<std::uint64_t>(batch.rows, kMaxKeptBytes / row_bytes);
  slot.vocabulary = batch.vocabulary;
  slot.first_column = shard.first_column;
  slot.kept.resize(static_cast<std::size_t>(slot.kept_rows), tiles);
  if (slot.kept_rows == batch.rows) return;
  for (Thread& thread : threads_) thread.spare.resize(1, tiles);
}

void ShardEngine::pass1(const driftgate_batch& batch, const driftgate_shard& shard,
                        std::span<driftgate_shard_partial> partials, std::span<driftgate_top_entry> top) {
  Slot& slot = slots_[shard.slot];
  prepare(slot, batch, shard);
  for_each_row(batch.rows, [&](std::uint64_t row, Thread& thread) {
    const KeptPart kept = row < slot.kept_rows ? slot.kept.at(row) : thread.spare.at(0);
    RowColumns columns = columns_of(batch, row, shard.first_column);
    // Batches have few rows, and the row behind the last is usually the first of the next batch. Where there
    // is none, fetching it does nothing.
    columns.next_train = columns.train + batch.train.row_stride_bytes;
    columns.next_inf = columns.inf + batch.inf.row_stride_bytes;
    thread.engine.pass1(columns, batch.tokens != nullptr ? batch.tokens + row : nullptr, kept, partials[row],
                        top.subspan(row * places_, places_));
  });
}

bool ShardEngine::follows(const driftgate_batch& batch, const driftgate_shard& shard) const {
  const Slot& slot = slots_[shard.slot];
  return slot.rows == batch.rows && slot.vocabulary == batch.vocabulary &&
         slot.first_column == shard.first_column;
}

void ShardEngine::pass2(const driftgate_batch& batch, const driftgate_shard& shard,
                        std::span<const driftgate_shard_row> rows, std::span<driftgate_shard_terms> terms) {
  Slot& slot = slots_[shard.slot];
  for_each_row(batch.rows, [&](std::uint64_t row, Thread& thread) {
    const RowColumns columns = columns_of(batch, row, shard.first_column);
    const bool stays = row < slot.kept_rows;
    const KeptPart kept = stays ? slot.kept.at(row) : thread.spare.at(0);
    // For core metrics, parts with moments have no terms.
    if (!stays && rows[row].skip == 0 && !(core_ && rows[row].by_moments != 0)) {
      driftgate_shard_partial again;
      thread.engine.pass1(columns, nullptr, kept, again, thread.top);
    }
    thread.engine.pass2(columns, kept, rows[row], terms[row]);
  });
}

}  // namespace driftgate::gpu::cpu
