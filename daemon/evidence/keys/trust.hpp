#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/evidence/keys/signed_note.hpp"
#include "schema/error.hpp"

namespace driftgate::evidence {

/// What a key may sign. Keys of different uses differ: a stolen attestation key signs no head.
enum class KeyUse : std::uint8_t { head, attestation };
[[nodiscard]] std::string_view to_string(KeyUse use);

/// A public key that a verifier trusts.
struct TrustedKey {
  KeyUse use = KeyUse::head;
  std::string name{};  ///< of a head key the log's origin; of an attestation key the first part of its key id
  PublicKey key{};
  /// Of a head key: the size of the log when it came into force. A head of `size` leaves is trusted under the
  /// newest key of its name with from_size ≤ size, and under the one before it when both are equal: a head of
  /// that size may have been signed just before the rotation.
  std::uint64_t from_size = 0;
  std::int64_t from_us = 0;  ///< when it came into force; for people
  /// When it was retired: it vouches for nothing that happened at or after this.
  std::optional<std::int64_t> until_us{};
  bool operator==(const TrustedKey&) const = default;
};

/// What an auditor keeps from a channel other than the log's host:
/// {"v":1,"keys":[{"use","name","key": base64 of 32 bytes,"from_size"?,"from_us","until_us"?}]}.
struct TrustFile {
  std::vector<TrustedKey> keys{};
  bool operator==(const TrustFile&) const = default;
};

inline constexpr std::size_t kMaxTrustBytes = 65'536;
inline constexpr std::size_t kMaxTrustedKeys = 256;

/// Reads a trust file. `invalid_document` with a JSON pointer for everything that is not exactly the format:
/// unknown members too, a key twice, and one key for two uses.
[[nodiscard]] Result<TrustFile> parse_trust(std::string_view json);
/// The file's text, indented, one key after another in the given order.
[[nodiscard]] std::string trust_json(const TrustFile& trust);

/// The keys of `name` that may have signed a head of `size` leaves, newest first.
[[nodiscard]] std::vector<TrustedKey> head_keys_at(const TrustFile& trust, std::string_view name,
                                                   std::uint64_t size);

/// "name+xxxxxxxx": the key id of attestations (the 32 bits are those of `key_id`).
[[nodiscard]] std::string key_id_text(std::string_view name, const PublicKey& key);

}  // namespace driftgate::evidence
