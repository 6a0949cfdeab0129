#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/evidence/log/merkle.hpp"
#include "schema/error.hpp"

namespace driftgate::evidence {

using PublicKey = std::array<std::uint8_t, 32>;  ///< raw Ed25519 key

/// An Ed25519 key pair (OpenSSL). Move-only; the secret never leaves it but for `save`.
class SigningKey {
 public:
  [[nodiscard]] static Result<SigningKey> generate();
  /// Reads a PKCS #8 PEM file. `io` when it cannot be read, `corrupt` when it is no Ed25519 key, `forbidden`
  /// when others may read it.
  [[nodiscard]] static Result<SigningKey> load(const std::string& path);
  /// Writes PKCS #8 PEM with mode 0600, synced; `already_exists` when the file is there.
  [[nodiscard]] Result<void> save(const std::string& path) const;
  ~SigningKey();
  SigningKey(SigningKey&&) noexcept;
  SigningKey& operator=(SigningKey&&) noexcept;

  [[nodiscard]] PublicKey public_key() const;
  [[nodiscard]] Result<std::string> sign(std::string_view message) const;  ///< 64 bytes

 private:
  struct Key;
  explicit SigningKey(std::unique_ptr<Key> key);
  std::unique_ptr<Key> key_;
};

[[nodiscard]] bool verify_signature(const PublicKey& key, std::string_view message,
                                    std::string_view signature);

/// What a tlog-checkpoint says (c2sp.org/tlog-checkpoint).
struct Checkpoint {
  std::string origin{};  ///< also the key's name
  std::uint64_t size = 0;
  Hash root{};
  bool operator==(const Checkpoint&) const = default;
};

/// "origin\nsize\nbase64(root)\n": the signed text.
[[nodiscard]] std::string checkpoint_text(const Checkpoint& checkpoint);
/// The signed note (c2sp.org/signed-note): text, blank line, "— name base64(key id ‖ signature)\n".
[[nodiscard]] Result<std::string> sign_checkpoint(const Checkpoint& checkpoint, const SigningKey& key);
/// Reads a note and checks the signature of `name` by `key`; `corrupt` when it is malformed, `forbidden` when
/// no signature by that key verifies.
[[nodiscard]] Result<Checkpoint> open_checkpoint(std::string_view note, std::string_view name,
                                                 const PublicKey& key);
/// What a note says, with the key ids of the signatures under its origin; nothing is verified. `corrupt` when
/// it is malformed.
struct UnverifiedCheckpoint {
  Checkpoint checkpoint{};
  std::vector<std::uint32_t> key_ids{};
};
[[nodiscard]] Result<UnverifiedCheckpoint> read_checkpoint(std::string_view note);
/// First 4 bytes of SHA-256(name ‖ 0x0A ‖ 0x01 ‖ key), big-endian.
[[nodiscard]] std::uint32_t key_id(std::string_view name, const PublicKey& key);
/// "name+hex(key id)+base64(0x01 ‖ key)": what an auditor keeps.
[[nodiscard]] std::string verifier_key_text(std::string_view name, const PublicKey& key);

}  // namespace driftgate::evidence
