#include "daemon/evidence/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace driftgate::evidence {

using store::Blob;
using store::Reader;
using store::Row;
using store::Sql;

namespace {

constexpr Sql kSize{"tree size", "SELECT coalesce(max(seq), -1) + 1 FROM entries"};
constexpr Sql kInsertEntry{
    "append entry",
    "INSERT INTO entries(seq, time_us, kind, actor, model, promotion, stage, checkpoint, "
    "contract, clause, verdict, bytes) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"};
constexpr Sql kNewestOf{"newest entry of a promotion",
                        "SELECT seq FROM entries WHERE promotion = ?1 ORDER BY seq DESC LIMIT 1"};
constexpr Sql kInsertNode{"append node", "INSERT INTO tree_nodes(position, hash) VALUES(?1, ?2)"};
constexpr Sql kNode{"find node", "SELECT hash FROM tree_nodes WHERE position = ?1"};
constexpr Sql kEntry{"find entry", "SELECT seq, bytes FROM entries WHERE seq = ?1"};
constexpr Sql kEntries{"entries in order",
                       "SELECT seq, bytes FROM entries WHERE seq >= ?1 ORDER BY seq LIMIT ?2"};

constexpr std::int64_t kVerifyStep = 20'000;  ///< entries in one read transaction, well under a second

std::optional<std::string_view> body_text(const schema::EntryDraft& draft, std::string_view key) {
  const auto found = draft.body.find(key);
  if (found == draft.body.end() || found->second.text() == nullptr) return std::nullopt;
  return *found->second.text();
}

Result<Hash> read_node(Reader& reader, std::int64_t position) {
  auto found = reader.one(kNode, {position}, [](const Row& row) { return row.text(0); });
  if (!found) return std::unexpected(std::move(found.error()));
  if (!*found || (*found)->size() != sizeof(Hash)) {
    return schema::fail(schema::ErrorCode::corrupt,
                        fmt::format("node {} of the evidence log is missing", position));
  }
  Hash hash;
  std::copy((*found)->begin(), (*found)->end(), reinterpret_cast<char*>(hash.data()));
  return hash;
}

NodeSource nodes_of(Reader& reader) {
  return [&reader](std::int64_t position) { return read_node(reader, position); };
}

/// Calls `on_node(position, hash)` for each node that leaf `seq` completes, itself first. `left_of(level)`
/// gives the complete subtree to the left at that level.
template <typename LeftOf, typename OnNode>
Result<void> completed_nodes(std::uint64_t seq, Hash hash, LeftOf&& left_of, OnNode&& on_node) {
  auto done = on_node(node_position(0, seq), hash);
  for (unsigned level = 0; done && (seq >> level & 1) != 0; ++level) {
    Result<Hash> left = left_of(level);
    if (!left) return std::unexpected(std::move(left.error()));
    hash = node_hash(*left, hash);
    done = on_node(node_position(level + 1, seq >> (level + 1)), hash);
  }
  return done;
}

/// The draft with the number of the promotion's entry before it.
Result<schema::EntryDraft> chained(Reader& reader, const schema::EntryDraft& draft) {
  schema::EntryDraft linked = draft;
  auto newest =
      reader.one(kNewestOf, {draft.subject.promotion}, [](const Row& row) { return row.integer(0); });
  if (!newest) return std::unexpected(std::move(newest.error()));
  linked.subject.prior = *newest;
  return linked;
}

Result<void> check_size(Reader& reader, std::uint64_t size) {
  auto now = tree_size(reader);
  if (!now) return std::unexpected(std::move(now.error()));
  if (size <= *now) return {};
  return schema::fail(schema::ErrorCode::not_found,
                      fmt::format("the evidence log has {} entries, not {}", *now, size));
}

}  // namespace

Result<Appended> append(store::Tx& tx, const schema::EntryDraft& draft) {
  if (draft.subject.promotion && !draft.subject.prior) {
    auto linked = chained(tx, draft);
    if (!linked) return std::unexpected(std::move(linked.error()));
    if (linked->subject.prior) return append(tx, *linked);
  }
  auto size = tree_size(tx);
  if (!size) return std::unexpected(std::move(size.error()));
  const auto seq = static_cast<std::int64_t>(*size);
  auto bytes = schema::encode_entry(seq, draft);
  if (!bytes) return std::unexpected(std::move(bytes.error()));
  const auto& subject = draft.subject;
  auto inserted =
      tx.run(kInsertEntry, {seq, draft.time_us, schema::to_string(draft.kind), draft.actor, subject.model,
                            subject.promotion, subject.stage, subject.checkpoint, subject.contract,
                            body_text(draft, "clause"), body_text(draft, "verdict"), Blob{*bytes}});
  if (!inserted) return std::unexpected(std::move(inserted.error()));
  const Hash leaf = leaf_hash(*bytes);
  auto done = completed_nodes(
      *size, leaf, [&](unsigned level) { return read_node(tx, node_position(level, (*size >> level) - 1)); },
      [&](std::int64_t position, const Hash& hash) -> Result<void> {
        auto stored = tx.run(kInsertNode, {position, Blob{schema::as_chars(hash)}});
        if (!stored) return std::unexpected(std::move(stored.error()));
        return {};
      });
  if (!done) return std::unexpected(std::move(done.error()));
  return Appended{seq, leaf};
}

Result<std::uint64_t> tree_size(Reader& reader) {
  auto size = reader.one(kSize, {}, [](const Row& row) { return row.unsigned_integer(0); });
  if (!size) return std::unexpected(std::move(size.error()));
  return size->value_or(0);
}

Result<Hash> root_at(Reader& reader, std::uint64_t size) {
  auto enough = check_size(reader, size);
  if (!enough) return std::unexpected(std::move(enough.error()));
  return root_at(size, nodes_of(reader));
}

Result<std::vector<Hash>> inclusion_proof(Reader& reader, std::uint64_t seq, std::uint64_t size) {
  auto enough = check_size(reader, size);
  if (!enough) return std::unexpected(std::move(enough.error()));
  return inclusion_proof(seq, size, nodes_of(reader));
}

Result<std::vector<Hash>> consistency_proof(Reader& reader, std::uint64_t from, std::uint64_t to) {
  auto enough = check_size(reader, to);
  if (!enough) return std::unexpected(std::move(enough.error()));
  return consistency_proof(from, to, nodes_of(reader));
}

Result<std::optional<StoredEntry>> find_entry(Reader& reader, std::int64_t seq) {
  return reader.one(kEntry, {seq}, [](const Row& row) { return StoredEntry{row.integer(0), row.text(1)}; });
}

Result<bool> LogVerifier::step(Reader& reader, std::int64_t limit) {
  const std::uint64_t before = next_;
  Result<void> checked;
  auto done = reader.each(kEntries, {next_, limit}, [&](const Row& row) {
    checked = check(reader, {row.integer(0), row.text(1)});
    return checked.has_value();
  });
  if (done && !checked) done = std::move(checked);
  if (!done) return std::unexpected(std::move(done.error()));
  return next_ - before < static_cast<std::uint64_t>(limit);
}

Result<void> LogVerifier::check(Reader& reader, const StoredEntry& entry) {
  if (entry.seq != static_cast<std::int64_t>(next_)) {
    return schema::fail(schema::ErrorCode::corrupt, fmt::format("evidence entry {} is missing", next_));
  }
  std::vector<Hash> merged;
  const auto compare = [&](std::int64_t position, const Hash& hash) -> Result<void> {
    merged.push_back(hash);
    auto stored = read_node(reader, position);
    if (!stored) return std::unexpected(std::move(stored.error()));
    if (*stored == hash) return {};
    return schema::fail(
        schema::ErrorCode::corrupt,
        fmt::format("evidence entry {} was altered: node {} of the tree does not follow from the "
                    "stored entries",
                    entry.seq, position));
  };
  const auto left_of = [&](unsigned) -> Result<Hash> {
    const Hash left = frontier_.back();
    frontier_.pop_back();
    return left;
  };
  auto done = completed_nodes(next_, leaf_hash(entry.bytes), left_of, compare);
  if (!done) return done;
  frontier_.push_back(merged.back());
  ++next_;
  return {};
}

Result<std::uint64_t> verify_log(store::Store& store) {
  LogVerifier verifier;
  bool ended = false;
  while (!ended) {
    auto done = store.read([&](Reader& reader) { return verifier.step(reader, kVerifyStep); });
    if (!done) return std::unexpected(std::move(done.error()));
    ended = *done;
  }
  return verifier.verified();
}

}  // namespace driftgate::evidence
