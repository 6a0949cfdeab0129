#include "daemon/evidence/keys/key_ids.hpp"

#include "daemon/evidence/keys/trust.hpp"
#include "schema/sha256.hpp"

namespace driftgate::evidence {

Hash key_digest(std::string_view name, const PublicKey& key) {
  constexpr std::string_view kEd25519 = "\n\x01";
  schema::Sha256 digest;
  return digest.update(name).update(kEd25519).update(key).finish();
}

std::string attestation_key_id(std::string_view name, const PublicKey& key) {
  return schema::to_hex(key_digest(name, key));
}

bool names_key(std::string_view id, std::string_view name, const PublicKey& key) {
  return id == attestation_key_id(name, key) || id == key_id_text(name, key);
}

}  // namespace driftgate::evidence
