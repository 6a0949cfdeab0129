#pragma once

#include <random>
#include <span>
#include <vector>

#include "gpu/cpu/shard_engine.hpp"
#include "gpu/ranks/shard_merge.hpp"
#include "tests/gpu/random_rows.hpp"

namespace driftgate::gpu::test {

/// Ends of the columns of each rank: `ranks` increasing numbers, the last is the vocabulary.
using Cuts = std::vector<std::uint32_t>;

inline Cuts random_cuts(std::mt19937_64& random, std::uint32_t vocabulary, std::uint32_t most_ranks) {
  const auto ranks = static_cast<std::uint32_t>(1 + random() % std::min(most_ranks, vocabulary));
  Cuts cuts{vocabulary};
  while (cuts.size() < ranks) {
    const auto cut = static_cast<std::uint32_t>(1 + random() % vocabulary);
    if (std::ranges::find(cuts, cut) == cuts.end()) cuts.push_back(cut);
  }
  std::ranges::sort(cuts);
  return cuts;
}

/// What became of a row whose rank r uses the kernel of number r, or r less as often as there are kernels.
struct SplitRow {
  driftgate_row row;
  bool by_moments;
};

inline SplitRow evaluate_split(std::span<const cpu::TileKernel* const> kernels, const Case& test,
                               const Cuts& cuts) {
  const auto vocabulary = static_cast<std::uint32_t>(test.pair.train.size());
  const std::uint32_t top_k = test.pair.top_k, ranks = static_cast<std::uint32_t>(cuts.size());
  const ShardMerger merger(ranks, top_k, test.pair.temperature);
  const std::size_t bytes = merger.partial_bytes(1);
  std::vector<std::byte> messages(ranks * bytes);
  std::vector<cpu::ShardEngine> engines;
  std::vector<driftgate_batch> batches;
  std::vector<driftgate_shard> shards;
  const std::int64_t token = *test.pair.token;
  for (std::uint32_t rank = 0, first = 0; rank < ranks; first = cuts[rank++]) {
    const auto part = [&](const Stored& stored) {
      driftgate_logits view = stored.view(vocabulary);
      view.data = static_cast<const unsigned char*>(view.data) + view.row_stride_bytes / vocabulary * first;
      return view;
    };
    batches.push_back({sizeof(driftgate_batch), cuts[rank] - first, 1, part(test.train), part(test.inf),
                       &token, test.pair.temperature});
    shards.push_back({sizeof(driftgate_shard), first, vocabulary, rank % DRIFTGATE_SHARD_SLOTS});
    engines.emplace_back(*kernels[rank % kernels.size()], 1, top_k);
    const std::span message(messages.data() + rank * bytes, bytes);
    engines[rank].pass1(batches[rank], shards[rank], ShardMerger::partials(message, 1),
                        merger.top(message, 1));
  }
  std::vector<driftgate_shard_row> merged(1);
  std::vector<driftgate_shard_terms> terms(ranks);
  merger.merge(messages, merged);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    engines[rank].pass2(batches[rank], shards[rank], merged, {&terms[rank], 1});
  }
  std::vector<driftgate_row> rows(1);
  merger.finish(messages, merged, terms, rows);
  return {rows[0], merged[0].by_moments != 0};
}

inline driftgate_row evaluate_split(const cpu::TileKernel& kernel, const Case& test, const Cuts& cuts) {
  const cpu::TileKernel* const one[] = {&kernel};
  return evaluate_split(one, test, cuts).row;
}

}  // namespace driftgate::gpu::test
