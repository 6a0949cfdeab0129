#include "daemon/evidence/log/log.hpp"

#include <utility>

#include "daemon/evidence/log/log_tail.hpp"
#include "daemon/evidence/log/log_tree.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

using store::Blob;
using store::Reader;
using store::Sql;

namespace {

constexpr Sql kSize{"tree size", "SELECT coalesce(max(seq), -1) + 1 FROM entries"};
constexpr Sql kInsertEntry{"append entry", "INSERT INTO entries(seq, bytes) VALUES(?1, ?2)"};
constexpr Sql kEntry{"find entry", "SELECT seq, bytes FROM entries WHERE seq = ?1"};

NodeSource nodes_of(Reader& reader) {
  return [&reader](unsigned level, std::uint64_t index) { return subtree(reader, level, index); };
}

Result<void> check_size(Reader& reader, std::uint64_t size) {
  auto now = TRY(tree_size(reader));
  if (size <= now) return {};
  return schema::failf(schema::ErrorCode::not_found, "the evidence log has {} entries, not {}", now, size);
}

}  // namespace

Result<Appended> append(store::Tx& tx, const schema::EntryDraft& draft) {
  auto& tail = tx.beside<LogTail>();
  auto seq = TRY(tail.next(tx));
  const auto& subject = draft.subject;
  const bool is_linked = subject.promotion && !subject.prior;
  const auto prior = TRY(is_linked ? tail.newest_of(tx, *subject.promotion)
                                   : Result<std::optional<std::int64_t>>(subject.prior));
  auto bytes = TRY(schema::encode_entry(seq, draft, prior));
  TRY(tx.run(kInsertEntry, {seq, Blob{bytes}}));
  TRY(tail.add(tx, seq, draft, bytes));
  return Appended{seq, std::move(bytes)};
}

Result<std::uint64_t> tree_size(Reader& reader) {
  auto size = TRY(find_row<std::uint64_t>(reader, kSize, {}));
  return size.value_or(0);
}

Result<Hash> root_at(Reader& reader, std::uint64_t size) {
  TRY(check_size(reader, size));
  return root_at(size, nodes_of(reader));
}

Result<std::vector<Hash>> inclusion_proof(Reader& reader, std::uint64_t seq, std::uint64_t size) {
  TRY(check_size(reader, size));
  return inclusion_proof(seq, size, nodes_of(reader));
}

Result<std::vector<Hash>> consistency_proof(Reader& reader, std::uint64_t from, std::uint64_t to) {
  TRY(check_size(reader, to));
  return consistency_proof(from, to, nodes_of(reader));
}

Result<std::optional<StoredEntry>> find_entry(Reader& reader, std::int64_t seq) {
  return find_row<StoredEntry>(reader, kEntry, {seq});
}

}  // namespace driftgate::evidence
