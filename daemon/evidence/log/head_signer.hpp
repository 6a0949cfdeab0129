#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/evidence/keys/signed_note.hpp"
#include "daemon/store/sqlite/sql.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::evidence {

/// The signed head that the database keeps beside the entries that it covers.
struct StoredHead {
  std::uint64_t size = 0;
  std::string note{};  ///< empty: no head of this log was signed yet
  bool operator==(const StoredHead&) const = default;
};

/// `corrupt` when there is none: each database has the row from its migration on.
[[nodiscard]] Result<StoredHead> stored_head(store::Reader& reader);
/// Takes the place of the head before it, in the caller's transaction; the size never becomes smaller.
[[nodiscard]] Result<void> store_head(store::Tx& tx, const StoredHead& head);
/// Signs the head of all entries, those of this transaction included, and stores it.
[[nodiscard]] Result<StoredHead> sign_and_store(store::Tx& tx, const std::string& origin,
                                                const SigningKey& key);

/// Signs the head of the log within each transaction that appends to it, so that an entry which somebody adds
/// without the key lies beyond every signed head. It signs only what extends the head that it signed last:
/// entries that another process put into the database are refused, and so is every write from then on.
class HeadSigner final : public store::CommitHook {
 public:
  /// `signed_head` is the newest head, its note signed by `key`; the caller has checked it against the tree.
  HeadSigner(std::string origin, SigningKey key, StoredHead signed_head, Hash root);

  Result<void> begun(store::Tx& tx) override;
  Result<void> before_commit(store::Tx& tx) override;

  [[nodiscard]] const SigningKey& key() const { return key_; }

 private:
  struct Head {
    StoredHead stored{};
    Hash root{};
  };
  [[nodiscard]] Result<void> check_extends(store::Tx& tx, std::uint64_t size, const Hash& root) const;

  const std::string origin_;
  const SigningKey key_;
  Head committed_;               ///< as the database had it when this transaction began
  std::optional<Head> pending_;  ///< signed in the newest transaction, whose COMMIT may have failed
};

}  // namespace driftgate::evidence
