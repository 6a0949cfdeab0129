#pragma once

#include <string>
#include <string_view>

#include "daemon/evidence/keys/signed_note.hpp"
#include "schema/error.hpp"

namespace driftgate::evidence {

inline constexpr std::string_view kInTotoPayloadType = "application/vnd.in-toto+json";

/// A DSSE envelope with one signature (github.com/secure-systems-lab/dsse).
struct Envelope {
  std::string payload_type{};
  std::string payload{};  ///< the bytes, not their base 64
  std::string key_id{};   ///< key_id_text of the attestation key
  std::string signature{};
  bool operator==(const Envelope&) const = default;
};

/// "DSSEv1" SP len(type) SP type SP len(payload) SP payload: what is signed.
[[nodiscard]] std::string pre_authentication_encoding(std::string_view payload_type,
                                                      std::string_view payload);
/// {"payload":…,"payloadType":…,"signatures":[{"keyid":…,"sig":…}]}
[[nodiscard]] std::string envelope_json(const Envelope& envelope);
/// Reads exactly what envelope_json writes, with one signature; `invalid_document`.
[[nodiscard]] Result<Envelope> parse_envelope(std::string_view json);

/// Signs attestations. Its key is not the log's, though it has its name: whoever can sign statements cannot
/// sign heads.
class AttestationSigner {
 public:
  /// Loads the key, or generates it (PKCS #8 PEM, mode 0600) when the file is not there. Errors of
  /// SigningKey.
  [[nodiscard]] static Result<AttestationSigner> open(const std::string& key_file, std::string_view origin);
  [[nodiscard]] Result<Envelope> seal(std::string payload) const;
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] PublicKey public_key() const { return key_.public_key(); }

 private:
  AttestationSigner(std::string name, SigningKey key) : name_(std::move(name)), key_(std::move(key)) {}
  std::string name_;
  SigningKey key_;
};

}  // namespace driftgate::evidence
