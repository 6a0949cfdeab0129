#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "daemon/evidence/keys/signed_note.hpp"
#include "daemon/evidence/keys/trust.hpp"
#include "daemon/evidence/log/head_options.hpp"
#include "daemon/evidence/log/head_signer.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::evidence {

/// Checks that the log extends the published head, which `key` or a head key of `known` must have signed.
/// `corrupt` with "rollback detected".
[[nodiscard]] Result<Checkpoint> check_published(store::Reader& reader, const HeadOptions& options,
                                                 const std::optional<PublicKey>& key, const TrustFile& known);

/// The signed head in the database, after its checks.
struct CheckedHead {
  StoredHead stored{};
  Hash root{};
  PublicKey signer{};
};

/// Checks that the head in the database is signed by `key`, or by the key of `trust` that was in force at its
/// size, and that it is the head of exactly the entries in the log. Nothing when no head was signed yet.
/// `corrupt` says what does not hold: entries beyond the head are forged, since each commit is signed.
/// `forbidden` when the head is signed by an unknown key.
[[nodiscard]] Result<std::optional<CheckedHead>> check_stored(store::Reader& reader,
                                                              const std::string& origin,
                                                              const std::optional<PublicKey>& key,
                                                              const TrustFile& trust);

/// The file beside the published head that says that each commit of the log is signed. The log of a version
/// that did not sign commits has none, and is accepted once.
[[nodiscard]] std::filesystem::path signed_commits_file(const HeadOptions& options);
[[nodiscard]] bool commits_are_signed(const HeadOptions& options);
/// Writes the file unless it is there.
[[nodiscard]] Result<void> note_signed_commits(const HeadOptions& options, std::uint64_t size);

/// `corrupt`, "rollback detected".
[[nodiscard]] std::unexpected<schema::Error> rollback(const std::string& what,
                                                      const std::filesystem::path& head);
/// `corrupt`: the database names no signed head although each commit of the log was signed.
[[nodiscard]] std::unexpected<schema::Error> emptied_head(const HeadOptions& options);

}  // namespace driftgate::evidence
