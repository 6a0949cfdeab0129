#include "daemon/evidence/log/head_signer.hpp"

#include <utility>

#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/log/log_tail.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

using schema::ErrorCode;
using store::Reader;
using store::Sql;
using store::Tx;

namespace {

constexpr Sql kHead{"signed head", "SELECT size, note FROM log_head WHERE id = 0"};
constexpr Sql kHeadAndSize{
    "signed head and size",
    "SELECT size, note, (SELECT coalesce(max(seq), -1) + 1 FROM entries) FROM log_head "
    "WHERE id = 0"};
constexpr Sql kStore{"store the signed head", "UPDATE log_head SET size = ?1, note = ?2 WHERE id = 0"};

struct HeadAndSize {
  StoredHead head{};
  std::uint64_t size = 0;
};

std::unexpected<schema::Error> gone() {
  return schema::fail(ErrorCode::corrupt,
                      "the signed head of the evidence log is gone from the database (table log_head): "
                      "somebody removed it; restore a backup");
}

}  // namespace

Result<StoredHead> stored_head(Reader& reader) {
  auto head = find_row<StoredHead>(reader, kHead, {});
  if (!head) {
    auto failed =
        schema::wrap(head.error(), "the signed head of the evidence log (table log_head) cannot be read");
    if (failed.error().code == ErrorCode::internal)
      failed.error().code = ErrorCode::corrupt;  // no such table
    return failed;
  }
  if (!*head) return gone();
  return std::move(**head);
}

Result<void> store_head(Tx& tx, const StoredHead& head) {
  auto changed = TRY(tx.run(kStore, {head.size, head.note}));
  if (changed != 1) return gone();
  return {};
}

Result<StoredHead> sign_and_store(Tx& tx, const std::string& origin, const SigningKey& key) {
  auto& tail = tx.beside<LogTail>();
  auto size = TRY(tail.next(tx));
  auto root = TRY(tail.root(tx));
  StoredHead head{static_cast<std::uint64_t>(size), {}};
  auto note = TRY(sign_checkpoint({origin, head.size, root}, key));
  head.note = std::move(note);
  TRY(store_head(tx, head));
  return head;
}

HeadSigner::HeadSigner(std::string origin, SigningKey key, StoredHead signed_head, Hash root)
    : origin_(std::move(origin)), key_(std::move(key)), committed_{std::move(signed_head), root} {}

Result<void> HeadSigner::begun(Tx& tx) {
  const auto found = TRY(find_row<HeadAndSize>(tx, kHeadAndSize, {}));
  if (!found) return gone();
  const auto& [head, size] = *found;
  if (pending_ && head == pending_->stored) committed_ = std::move(*pending_);
  pending_.reset();
  if (head != committed_.stored) {
    return schema::fail(ErrorCode::corrupt,
                        "the signed head in the database is not the one that this daemon stored: another "
                        "program writes to the database. Stop it and restore a backup");
  }
  if (size == committed_.stored.size) return {};
  return schema::failf(ErrorCode::corrupt,
                       "the evidence log has {} entries and its signed head covers {}: another program wrote "
                       "to the database, and what it appended is forged. Stop it and restore a backup",
                       size, committed_.stored.size);
}

Result<void> HeadSigner::before_commit(Tx& tx) {
  auto& tail = tx.beside<LogTail>();
  auto size = TRY(tail.next(tx));
  if (static_cast<std::uint64_t>(size) == committed_.stored.size) return {};
  auto root = TRY(tail.root(tx));
  if (tail.is_unchecked()) {
    TRY(check_extends(tx, static_cast<std::uint64_t>(size), root));
    tail.mark_checked();
  }
  auto head = TRY(sign_and_store(tx, origin_, key_));
  pending_ = Head{std::move(head), root};
  return {};
}

/// What was read back from the database is signed only if it continues what was signed before.
Result<void> HeadSigner::check_extends(Tx& tx, std::uint64_t size, const Hash& root) const {
  auto proof = TRY(consistency_proof(tx, committed_.stored.size, size));
  if (verify_consistency(committed_.stored.size, size, committed_.root, root, proof)) return {};
  return schema::failf(ErrorCode::corrupt,
                       "the first {} entries of the evidence log are not those that were signed: the "
                       "database was changed. Restore a backup",
                       committed_.stored.size);
}

}  // namespace driftgate::evidence
