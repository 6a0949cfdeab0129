#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/evidence/merkle.hpp"
#include "daemon/store/sql.hpp"
#include "daemon/store/store.hpp"
#include "schema/evidence_entry.hpp"

namespace driftgate::evidence {

struct Appended {
  std::int64_t seq = 0;
  Hash leaf{};
};

/// Appends an entry and the tree nodes that it completes, in the caller's transaction: write the state change
/// that it records in the same one. An entry about a promotion is linked to the one before it
/// (`EvidenceSubject::prior`). Errors of schema::encode_entry; `storage_full`, `io`.
Result<Appended> append(store::Tx& tx, const schema::EntryDraft& draft);

/// Leaves in the log.
Result<std::uint64_t> tree_size(store::Reader& reader);
/// Root of the first `size` leaves; `not_found` when the log is smaller.
Result<Hash> root_at(store::Reader& reader, std::uint64_t size);
Result<std::vector<Hash>> inclusion_proof(store::Reader& reader, std::uint64_t seq, std::uint64_t size);
Result<std::vector<Hash>> consistency_proof(store::Reader& reader, std::uint64_t from, std::uint64_t to);

/// The exact bytes of an entry.
struct StoredEntry {
  std::int64_t seq = 0;
  std::string bytes{};
};
Result<std::optional<StoredEntry>> find_entry(store::Reader& reader, std::int64_t seq);

/// Recomputes leaves and nodes from the entries' bytes and compares them with what is stored, some entries at
/// a time, so that no read transaction is long.
class LogVerifier {
 public:
  /// Checks at most `limit` further entries; true when it has come to the end of the log. `corrupt` names the
  /// first entry or node that differs.
  Result<bool> step(store::Reader& reader, std::int64_t limit);
  [[nodiscard]] std::uint64_t verified() const { return next_; }

 private:
  Result<void> check(store::Reader& reader, const StoredEntry& entry);

  std::uint64_t next_ = 0;
  std::vector<Hash> frontier_;  ///< of each complete subtree on the right edge, largest first
};

/// Checks the whole log. Returns the number of entries.
Result<std::uint64_t> verify_log(store::Store& store);

}  // namespace driftgate::evidence
