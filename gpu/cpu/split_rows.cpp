#include "gpu/cpu/split_rows.hpp"

#include <algorithm>

#include "gpu/cpu/row_figures.hpp"

namespace driftgate::gpu::cpu {

SplitRows::SplitRows(const TileKernel& kernel, std::uint32_t threads, std::uint32_t vocabulary,
                     std::uint32_t top_k, std::uint32_t metrics, std::uint32_t part_columns)
    : vocabulary_(vocabulary),
      top_k_(top_k),
      parts_((vocabulary + part_columns - 1) / part_columns),
      core_(metrics == DRIFTGATE_METRICS_CORE),
      exchanges_(threads),
      pool_(threads) {
  for (std::uint32_t i = 0; i < threads; ++i) engines_.emplace_back(kernel, top_k, metrics);
  const std::size_t tiles = RowColumns::tiles_of(vocabulary);
  parts_ = static_cast<std::uint32_t>(std::min<std::size_t>(parts_, tiles));
  kept_.resize(std::size_t{threads} * parts_, (tiles + parts_ - 1) / parts_);
}

/// Parts consist of whole tiles, except the last one.
RowColumns SplitRows::columns(const Rows& rows, std::uint64_t row, std::uint32_t part) const {
  const std::size_t tiles = RowColumns::tiles_of(vocabulary_);
  const std::size_t begin = tiles * part / parts_ * kTileColumns;
  const std::size_t end = std::min<std::size_t>(tiles * (part + 1) / parts_ * kTileColumns, vocabulary_);
  return columns_of(rows.batch, rows.first + row)
      .part(static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end - begin));
}

void SplitRows::prepare(const Rows& rows) const {
  Exchange& exchange = rows.exchange;
  const auto count = static_cast<std::size_t>(rows.count);
  exchange.messages.resize(parts_ * rows.merger.partial_bytes(rows.count));
  exchange.merged.resize(count);
  exchange.terms.resize(parts_ * count);
}

void SplitRows::pass1(const Rows& rows, std::uint64_t row, std::uint32_t part, PartEngine& engine) {
  const std::size_t bytes = rows.merger.partial_bytes(rows.count),
                    places = 2 * std::max<std::size_t>(top_k_, 2);
  const std::span message(rows.exchange.messages.data() + part * bytes, bytes);
  const std::int64_t* tokens = rows.batch.tokens;
  engine.pass1(columns(rows, row, part), tokens != nullptr ? tokens + rows.first + row : nullptr,
               kept_.at(rows.first_kept + row * parts_ + part),
               ShardMerger::partials(message, rows.count)[row],
               rows.merger.top(message, rows.count).subspan(row * places, places));
}

void SplitRows::pass2(const Rows& rows, std::uint64_t row, std::uint32_t part, PartEngine& engine) {
  Exchange& exchange = rows.exchange;
  engine.pass2(columns(rows, row, part), kept_.at(rows.first_kept + row * parts_ + part),
               exchange.merged[row], exchange.terms[part * rows.count + row]);
}

void SplitRows::finish(const Rows& rows, std::span<driftgate_row> results) const {
  const Exchange& exchange = rows.exchange;
  const auto out =
      results.subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
  rows.merger.finish(exchange.messages, exchange.merged, exchange.terms, out);
  if (!core_) return;
  for (driftgate_row& row : out) keep_core(row);
}

void SplitRows::measure(const driftgate_batch& batch, std::span<driftgate_row> results) {
  const ShardMerger merger(parts_, top_k_, batch.temperature);
  if (batch.rows < pool_.size()) return measure_together(batch, merger, results);
  measure_apart(batch, merger, results);
}

void SplitRows::measure_together(const driftgate_batch& batch, const ShardMerger& merger,
                                 std::span<driftgate_row> results) {
  const Rows rows{batch, merger, exchanges_[0], 0, batch.rows, 0};
  prepare(rows);
  const std::uint64_t units = batch.rows * parts_;
  const auto share = [&](std::size_t thread, auto work) {
    const std::uint64_t end = units * (thread + 1) / pool_.size();
    for (std::uint64_t unit = units * thread / pool_.size(); unit < end; ++unit) {
      work(unit / parts_, static_cast<std::uint32_t>(unit % parts_), engines_[thread]);
    }
  };
  pool_.run([&](std::size_t thread) {
    share(thread,
          [&](std::uint64_t row, std::uint32_t part, PartEngine& engine) { pass1(rows, row, part, engine); });
  });
  merger.merge(rows.exchange.messages, rows.exchange.merged);
  pool_.run([&](std::size_t thread) {
    share(thread,
          [&](std::uint64_t row, std::uint32_t part, PartEngine& engine) { pass2(rows, row, part, engine); });
  });
  finish(rows, results);
}

void SplitRows::measure_apart(const driftgate_batch& batch, const ShardMerger& merger,
                              std::span<driftgate_row> results) {
  for (std::size_t thread = 0; thread < pool_.size(); ++thread)
    prepare({batch, merger, exchanges_[thread], 0, 1, 0});
  pool_.run([&](std::size_t thread) {
    const std::uint64_t end = batch.rows * (thread + 1) / pool_.size();
    for (std::uint64_t row = batch.rows * thread / pool_.size(); row < end; ++row) {
      const Rows one{batch, merger, exchanges_[thread], row, 1, thread * parts_};
      for (std::uint32_t part = 0; part < parts_; ++part) pass1(one, 0, part, engines_[thread]);
      merger.merge(one.exchange.messages, one.exchange.merged);
      // Backwards, because what was written last is still in the cache.
      for (std::uint32_t part = parts_; part-- > 0;) pass2(one, 0, part, engines_[thread]);
      finish(one, results);
    }
  });
}

}  // namespace driftgate::gpu::cpu
