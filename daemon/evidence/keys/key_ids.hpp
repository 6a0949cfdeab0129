#pragma once

#include <string>
#include <string_view>

#include "daemon/evidence/keys/signed_note.hpp"

namespace driftgate::evidence {

/// SHA-256(name ‖ 0x0A ‖ 0x01 ‖ key), of which `key_id` is the first 4 bytes.
[[nodiscard]] Hash key_digest(std::string_view name, const PublicKey& key);

/// The key id that envelopes have: key_digest in hexadecimal, since other people's libraries take no other
/// form.
[[nodiscard]] std::string attestation_key_id(std::string_view name, const PublicKey& key);

/// Whether the key id of an envelope is this key's, in the form of today or in that of older envelopes
/// (key_id_text).
[[nodiscard]] bool names_key(std::string_view id, std::string_view name, const PublicKey& key);

}  // namespace driftgate::evidence
