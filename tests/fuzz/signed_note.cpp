#include "daemon/evidence/keys/signed_note.hpp"

#include <memory>

#include "tests/fuzz/unit.hpp"

namespace {

using namespace driftgate::evidence;

const SigningKey& key() {
  static const SigningKey made = std::move(SigningKey::generate().value());
  return made;
}

}  // namespace

/// Published heads. Only what this key signed may be accepted.
void driftgate::fuzz::run(std::string_view bytes) {
  const auto opened = open_checkpoint(bytes, "driftgate.local/log", key().public_key());
  require(!opened, "a note without the key's signature is refused");
  // The text of the input, properly signed: what the reader makes of it must be what was signed.
  const Checkpoint checkpoint{"driftgate.local/log", bytes.size() * 77, leaf_hash(bytes)};
  const auto note = sign_checkpoint(checkpoint, key());
  const auto again = open_checkpoint(*note, "driftgate.local/log", key().public_key());
  require(again.has_value() && *again == checkpoint, "a signed head reads back");
}
