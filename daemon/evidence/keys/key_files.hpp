#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "daemon/evidence/keys/signed_note.hpp"
#include "daemon/evidence/keys/trust.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::evidence {

/// Where a key of the daemon lies. Beside it, after rotations, NAME.retired-<key id> for each key before it;
/// while one goes on, NAME.next.
struct KeyFile {
  KeyUse use = KeyUse::head;
  std::filesystem::path path{};
  std::string name{};  ///< in trust files: the log's origin
};

/// The daemon's own record of its public keys with the sizes and times that each was in force from and until:
/// what auditors are given as a trust file. It lies in the data folder.
[[nodiscard]] std::filesystem::path trust_path(const std::filesystem::path& data_dir);
/// Empty when there is none yet.
[[nodiscard]] Result<TrustFile> load_trust(const std::filesystem::path& data_dir);
[[nodiscard]] Result<void> save_trust(const std::filesystem::path& data_dir, const TrustFile& trust);
/// That the key is the one in force on record, if any of its use and name is. `corrupt` when it is another
/// one.
[[nodiscard]] Result<void> check_key(const TrustFile& trust, const KeyFile& file, const PublicKey& key);
/// Adds the key to the record unless it is there; the key of its use and name before it ends at `now_us`.
[[nodiscard]] Result<void> note_key(const std::filesystem::path& data_dir, const KeyFile& file,
                                    const PublicKey& key, std::uint64_t from_size, std::int64_t now_us);

/// Replaces a key: the new one is generated (0600), the entry `key_rotated` names both, and only then the
/// files change places. What a crash interrupts is finished or undone by `finish_rotation`. Returns the new
/// public key. The store must be that of a daemon that does not run, and a HeadPublisher must have been started
/// on it, so that the entry's commit is signed.
[[nodiscard]] Result<PublicKey> rotate_key(store::Store& store, const KeyFile& file,
                                           const std::string& reason, std::int64_t now_us);

/// Finishes a rotation whose entry is in the log, and undoes one whose entry is not.
[[nodiscard]] Result<void> finish_rotation(store::Store& store, const KeyFile& file);

}  // namespace driftgate::evidence
