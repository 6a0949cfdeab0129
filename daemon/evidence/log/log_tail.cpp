#include "daemon/evidence/log/log_tail.hpp"

#include <utility>

#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/log/log_tree.hpp"
#include "daemon/evidence/log/subtrees.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::evidence {

using schema::EvidenceKind;
using store::Reader;
using store::Sql;
using store::Tx;

namespace {

constexpr std::size_t kMaxKnownPromotions = 1'024;

constexpr Sql kNewestOf{"newest entry of a promotion",
                        "SELECT seq FROM entries WHERE promotion = ?1 ORDER BY seq DESC LIMIT 1"};

/// The kernel of what names one itself.
std::optional<std::string_view> named_kernel(const schema::EntryDraft& draft) {
  switch (draft.kind) {
    case EvidenceKind::engine_registered:
    case EvidenceKind::model_bootstrapped:
    case EvidenceKind::promotion_requested:
      return body_text(draft, "kernel");
    case EvidenceKind::kernel_registered:
      return body_text(draft, "name");
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<std::string_view> body_text(const schema::EntryDraft& draft, std::string_view key) {
  const auto found = draft.body.find(key);
  if (found == draft.body.end() || found->second.text() == nullptr) return std::nullopt;
  return *found->second.text();
}

IndexedEntry indexed_entry(std::int64_t seq, const schema::EntryDraft& draft) {
  IndexedEntry entry{.seq = seq, .time_us = draft.time_us, .promotion = draft.subject.promotion};
  entry[IndexField::kind] = schema::to_string(draft.kind);
  entry[IndexField::actor] = draft.actor;
  entry[IndexField::model] = draft.subject.model;
  entry[IndexField::stage] = draft.subject.stage;
  entry[IndexField::checkpoint] = draft.subject.checkpoint;
  entry[IndexField::contract] = draft.subject.contract;
  entry[IndexField::kernel] = named_kernel(draft);
  entry[IndexField::clause] = body_text(draft, "clause");
  entry[IndexField::verdict] = body_text(draft, "verdict");
  return entry;
}

Result<std::int64_t> LogTail::next(Reader& reader) {
  if (!next_) {
    auto size = TRY(tree_size(reader));
    next_ = static_cast<std::int64_t>(size);
  }
  return *next_;
}

Result<std::optional<std::int64_t>> LogTail::newest_of(Reader& reader, const std::string& promotion) {
  const auto known = newest_.find(promotion);
  if (known != newest_.end()) return known->second;
  return find_row<std::int64_t>(reader, kNewestOf, {promotion});
}

Result<void> LogTail::add(Tx& tx, std::int64_t seq, const schema::EntryDraft& draft,
                          const std::string& bytes) {
  next_ = seq + 1;
  if (draft.subject.promotion) {
    if (newest_.size() >= kMaxKnownPromotions) newest_.clear();
    newest_.insert_or_assign(*draft.subject.promotion, seq);
  }
  TRY(add_leaf(tx, seq, bytes));
  return add_to_block(tx, seq, draft);
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

Result<void> LogTail::add_to_block(Tx& tx, std::int64_t seq, const schema::EntryDraft& draft) {
  if (seq % kIndexBlock == 0) block_.emplace(seq / kIndexBlock);
  if (block_) block_->add(indexed_entry(seq, draft));
  if ((seq + 1) % kIndexBlock != 0) return {};
  auto done = block_ ? block_->write(tx) : index_next_block(tx);
  block_.reset();
  return done;
}

}  // namespace driftgate::evidence
