#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/evidence/log/merkle.hpp"
#include "daemon/store/sqlite/sql.hpp"
#include "daemon/store/store.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::evidence {

struct Appended {
  std::int64_t seq = 0;
  std::string bytes{};  ///< as stored and hashed
};

/// Appends an entry and the tree nodes and index rows that it completes, in the caller's transaction: write
/// the state change that it records in the same one. An entry about a promotion is linked to the one before
/// it
/// (`EvidenceSubject::prior`). Errors of schema::encode_entry; `storage_full`, `io`.
Result<Appended> append(store::Tx& tx, const schema::EntryDraft& draft);

/// The number of entries in the log.
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

/// Recomputes the tree from the entries' bytes, on several threads, and compares it with the stored nodes;
/// `corrupt` names the entries that differ. The last entries, fewer than kGroup, have no stored node: only a
/// signed head covers them. Returns the number of entries.
Result<std::uint64_t> verify_log(store::Store& store);

}  // namespace driftgate::evidence
