
#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/log/log_tree.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

using store::Reader;
using store::Row;
using store::Sql;

namespace {

constexpr unsigned kChunkLevel = 14;
constexpr std::uint64_t kChunk = 1ULL
                                 << kChunkLevel;  ///< entries in one read transaction, well under a second
constexpr unsigned kMaxThreads = 4;               ///< as many as the store has readers

constexpr Sql kEntries{"entries in order",
                       "SELECT seq, bytes FROM entries WHERE seq >= ?1 AND seq < ?2 ORDER BY seq"};
constexpr Sql kNodes{"nodes in order",
                     "SELECT position, hash FROM tree_nodes WHERE position >= ?1 ORDER BY position LIMIT ?2"};

std::unexpected<schema::Error> altered(std::uint64_t first, std::uint64_t end) {
  return schema::failf(
      schema::ErrorCode::corrupt,
      "evidence entries {} to {} were altered: a stored node of the tree does not follow from them", first,
      end - 1);
}

/// Whether the stored nodes from `position` on are `expected`.
Result<bool> nodes_are(Reader& reader, std::int64_t position, const std::vector<Hash>& expected) {
  std::size_t equal = 0;
  TRY(reader.each(kNodes, {position, expected.size()}, [&](const Row& row) {
    const bool same = row.integer(0) == position + static_cast<std::int64_t>(equal) &&
                      row.bytes(1) == schema::as_chars(expected[equal]);
    equal += same ? 1 : 0;
    return same;
  }));
  return equal == expected.size();
}

/// Checks the entries of a chunk against its nodes; the root of a whole chunk, nothing for the last one.
Result<std::optional<Hash>> verify_chunk(Reader& reader, std::uint64_t first, std::uint64_t end) {
  std::vector<Hash> edge, expected;
  std::uint64_t next = first;
  TRY(reader.each(kEntries, {first, end}, [&](const Row& row) {
    if (row.unsigned_integer(0) != next) return false;
    grow(edge, next - first, leaf_hash(row.bytes(1)), kChunkLevel, [&](unsigned level, const Hash& hash) {
      if (level >= kStoredLevel) expected.push_back(hash);
    });
    ++next;
    return true;
  }));
  if (next != end) {
    return schema::failf(schema::ErrorCode::corrupt, "evidence entry {} is missing", next);
  }
  auto same = TRY(nodes_are(reader, stored_position(kStoredLevel, first / kGroup), expected));
  if (!same) return altered(first, end);
  if (end - first < kChunk) return std::nullopt;
  return edge.front();
}

/// The work of several threads on the chunks of one log.
class Verification {
 public:
  Verification(store::Store& store, std::uint64_t size)
      : store_(store), size_(size), roots_((size + kChunk - 1) / kChunk) {}

  Result<void> run() {
    const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads);
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < cores; ++i) threads.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : threads) thread.join();
    if (failure_) return std::unexpected(std::move(*failure_));
    return verify_top();
  }

 private:
  void work() {
    for (;;) {
      const std::size_t chunk = next_.fetch_add(1);
      if (chunk >= roots_.size() || failed_) return;
      const std::uint64_t first = chunk * kChunk;
      auto root = store_.read(
          [&](Reader& reader) { return verify_chunk(reader, first, std::min(first + kChunk, size_)); });
      if (root) {
        roots_[chunk] = *root;
        continue;
      }
      failed_ = true;
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::move(root.error());
    }
  }

  /// The nodes above the chunks.
  Result<void> verify_top() {
    return store_.read([&](Reader& reader) -> Result<void> {
      std::vector<Hash> edge;
      for (std::uint64_t chunk = 0; chunk < roots_.size() && roots_[chunk]; ++chunk) {
        std::vector<Hash> expected;
        grow(edge, chunk, *roots_[chunk], kMaxLevels, [&](unsigned, const Hash& hash) { expected.push_back(hash); });
        auto same = TRY(nodes_are(reader, stored_position(kChunkLevel, chunk), expected));
        if (!same) return altered(0, (chunk + 1) * kChunk);
      }
      return {};
    });
  }

  store::Store& store_;
  const std::uint64_t size_;
  std::vector<std::optional<Hash>> roots_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::optional<schema::Error> failure_;
};

}  // namespace

Result<std::uint64_t> verify_log(store::Store& store) {
  auto size = TRY(store.read([](Reader& reader) { return tree_size(reader); }));
  TRY(Verification(store, size).run());
  return size;
}

}  // namespace driftgate::evidence
