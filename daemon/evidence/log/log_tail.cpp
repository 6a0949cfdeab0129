#include "daemon/evidence/log/log_tail.hpp"

#include <utility>

#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/log/log_tree.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/evidence/log/subtrees.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::evidence {

using store::Reader;
using store::Row;
using store::Sql;
using store::Tx;

namespace {

constexpr std::size_t kMaxKnownPromotions = 1'024;

constexpr Sql kEntries{"entries of the unfinished block",
                       "SELECT seq, bytes FROM entries WHERE seq >= ?1 AND seq < ?2 ORDER BY seq"};

}  // namespace

Result<std::int64_t> LogTail::next(Reader& reader) {
  if (!next_) {
    auto size = TRY(tree_size(reader));
    next_ = static_cast<std::int64_t>(size);
  }
  return *next_;
}

Result<std::optional<std::int64_t>> LogTail::newest_of(Reader& reader, const std::string& promotion) {
  if (last_ != nullptr && last_->first == promotion) return last_->second;
  const auto known = newest_.find(promotion);
  if (known != newest_.end()) return known->second;
  const auto size = TRY(next(reader));
  TRY(read_block(reader, size));
  const auto in_block = block_->newest_of(IndexField::promotion, promotion);
  if (in_block) return in_block;
  const auto older =
      TRY(first_entry(reader, {.promotion = promotion, .newest_first = true, .cursor = block_->first()}));
  return older ? std::optional(older->seq) : std::nullopt;
}

Result<void> LogTail::add(Tx& tx, std::int64_t seq, const schema::EntryDraft& draft,
                          const std::string& bytes) {
  next_ = seq + 1;
  if (draft.subject.promotion) note_newest(*draft.subject.promotion, seq);
  TRY(add_leaf(tx, seq, bytes));
  return add_to_block(tx, seq, draft);
}

/// Neighbours are mostly about the same promotion.
void LogTail::note_newest(const std::string& promotion, std::int64_t seq) {
  if (last_ == nullptr || last_->first != promotion) {
    if (newest_.size() >= kMaxKnownPromotions) newest_.clear();
    last_ = &*newest_.try_emplace(promotion).first;
  }
  last_->second = seq;
}

Result<Hash> LogTail::root(Reader& reader) {
  auto size = TRY(next(reader));
  TRY(read_edge(reader, static_cast<std::uint64_t>(size)));
  return root_of_edge(*edge_);
}

Result<void> LogTail::read_edge(Reader& reader, std::uint64_t size) {
  if (edge_) return {};
  std::vector<Hash> edge;
  for (const Subtree& part : subtrees_of(0, size)) {
    auto hash = TRY(subtree(reader, part.level, part.index));
    edge.push_back(hash);
  }
  edge_ = std::move(edge);
  unchecked_ = true;
  return {};
}

Result<void> LogTail::add_leaf(Tx& tx, std::int64_t seq, const std::string& bytes) {
  const auto index = static_cast<std::uint64_t>(seq);
  TRY(read_edge(tx, index));
  Result<void> done;
  grow(*edge_, index, leaf_hash(bytes), kMaxLevels, [&](unsigned level, const Hash& hash) {
    if (done && level >= kStoredLevel) done = store_node(tx, level, index >> level, hash);
  });
  return done;
}

/// What the first `size` entries have of the unfinished block.
Result<void> LogTail::read_block(Reader& reader, std::int64_t size) {
  if (block_) return {};
  IndexBlock block(size / kIndexBlock);
  EntryGlance glance;
  TRY(reader.each(kEntries, {block.first(), size}, [&](const Row& row) {
    block.add(row.integer(0), glance.read(row.bytes(1)));
    return true;
  }));
  block_ = std::move(block);
  return {};
}

Result<void> LogTail::add_to_block(Tx& tx, std::int64_t seq, const schema::EntryDraft& draft) {
  TRY(read_block(tx, seq));
  block_->add(seq, indexed_entry(draft));
  if ((seq + 1) % kIndexBlock != 0) return {};
  for (auto indexed = TRY(indexed_size(tx)); indexed < block_->first(); indexed += kIndexBlock) {
    TRY(index_next_block(tx));
  }
  auto done = block_->write(tx);
  block_.reset();
  return done;
}

}  // namespace driftgate::evidence
