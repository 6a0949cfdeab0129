#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/ranks/rank_layout.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

class Capture;

/// Bytes of stored logits of both kernels in one chunk: about a second of work for two cores.
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{8} << 30;
/// Limit on the bytes of the table of one chunk.
inline constexpr std::size_t kMaxChunkTableBytes = std::size_t{1} << 30;

/// Keeps the tables of finished chunks for a measurement that is started again. A key says which rows of what
/// captures are measured and how, by what captures say of themselves; that their files are still the same is
/// up to the store. Called by one thread of each
/// rank; names of different ranks differ.
class ChunkStore {
 public:
  ChunkStore() = default;
  ChunkStore(const ChunkStore&) = delete;
  ChunkStore& operator=(const ChunkStore&) = delete;
  virtual ~ChunkStore() = default;
  /// The bytes that were kept under this name and this key; nothing where there are none, or where they are
  /// damaged.
  [[nodiscard]] virtual std::optional<std::string> find(const std::string& name, const std::string& key) = 0;
  /// Keeps the bytes so that after a crash they are there whole or not at all. Errors: io, storage_full.
  [[nodiscard]] virtual schema::Result<void> keep(const std::string& name, const std::string& key,
                                                  std::string_view bytes) = 0;
};

/// How a measurement is cut into chunks of whole sequences. Their boundaries depend on the captures and on
/// these values alone, and the table is the same to the bit as that of a measurement in one go.
struct Chunking {
  /// Null: the measurement goes in one go and cannot be interrupted. The rows of chunks that were kept are
  /// not measured, so that no sink receives them.
  ChunkStore* store = nullptr;
  std::string name;             ///< of the measurement: chunks are kept as NAME-NUMBER
  std::uint64_t bytes = kChunkBytes;
  /// Asked before each chunk; when it is true, the measurement ends with `interrupted`. May be empty.
  std::function<bool()> stop{};
  [[nodiscard]] bool stopping() const { return stop && stop(); }
};

/// The error of a measurement that was told to stop between two chunks.
[[nodiscard]] schema::Error interrupted();
/// Whether an error is that of `interrupted`, also after it was attributed to a rank.
[[nodiscard]] bool is_interruption(const schema::Error& error);

/// The number of rows of `capture` whose logits, of both kernels, have about `bytes` bytes in float32; fewer
/// for hidden states, whose logits cost a product each. At least 1.
[[nodiscard]] std::uint64_t rows_of_chunk(const Capture& capture, std::uint64_t bytes);
/// Cuts the rows into chunks of whole sequences: each ends at the first place at which it has at least `rows`
/// rows and no sequence continues behind it.
[[nodiscard]] std::vector<Range> chunk_ranges(std::span<const std::int64_t> sequence_ids, std::uint64_t rows);

}  // namespace driftgate::gpu
