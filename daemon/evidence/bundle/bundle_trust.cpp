#include <fmt/format.h>

#include <algorithm>

#include "daemon/evidence/bundle/bundle_verifier.hpp"
#include "daemon/evidence/keys/key_ids.hpp"

namespace driftgate::evidence {

namespace {

std::string id_list(const std::vector<std::uint32_t>& ids) {
  std::string text;
  for (const std::uint32_t id : ids) text += fmt::format("{}{:08x}", text.empty() ? "" : ", ", id);
  return text.empty() ? "none" : text;
}

}  // namespace

std::optional<Checkpoint> BundleVerifier::open_head(const std::string& note, const std::string& what) {
  auto read = read_checkpoint(note);
  if (!read) {
    report(BundleResult::tampered, "{}: {}", what, read.error().message);
    return std::nullopt;
  }
  const auto& head = read->checkpoint;
  bool known = false;
  bool good = false;
  bool bad = false;
  for (const TrustedKey& key : head_keys_at(options_.trust, head.origin, head.size)) {
    if (std::ranges::find(read->key_ids, key_id(key.name, key.key)) == read->key_ids.end()) continue;
    known = true;
    if (!open_checkpoint(note, key.name, key.key)) {
      bad = true;
    } else if (!good) {
      good = true;
      signers_.push_back(key);  // the newest one vouches
    }
  }
  if (bad) {
    report(BundleResult::tampered, "{}: its signature does not verify", what);
  } else if (!known) {
    report(BundleResult::untrusted,
           "{} of {} at {} entries is signed by the keys {}; the trust file has none of them for that size",
           what, head.origin, head.size, id_list(read->key_ids));
  }
  // What it says is still checked against the rest: a wrong key and a wrong tree are different findings.
  return head;
}

void BundleVerifier::check_head(const std::string& note) {
  if (auto head = open_head(note, "the checkpoint")) head_ = std::move(*head);
}

/// That the bundle's head continues a head that the auditor kept.
void BundleVerifier::check_older_head() {
  if (!options_.older_head) return;
  const auto signers = signers_;
  const auto older = open_head(*options_.older_head, "the older head");
  signers_ = signers;  // the key that signed it then may be retired by now
  if (!older) return;
  if (older->origin != head_.origin) {
    return report(BundleResult::forked, "the older head is of the log {}, the bundle of {}", older->origin,
                  head_.origin);
  }
  if (older->size > head_.size) {
    return report(BundleResult::forked, "rollback: the older head has {} entries, the bundle's {}",
                  older->size, head_.size);
  }
  const auto fork = [&] {
    report(BundleResult::forked, "fork: the first {} entries are not those of the older head", older->size);
  };
  if (older->size == head_.size) {
    if (older->root != head_.root) fork();
  } else if (older->size == 0) {
    if (older->root != empty_root()) fork();
  } else if (!older_ || older_->size != older->size) {
    report(BundleResult::incomplete,
           "the bundle has no consistency proof from {} entries: export it with that older head",
           older->size);
  } else if (older_->root != older->root) {
    fork();
  }
}

void BundleVerifier::check_signature(const Envelope& envelope) {
  for (const TrustedKey& key : options_.trust.keys) {
    if (key.use != KeyUse::attestation || !names_key(envelope.key_id, key.name, key.key)) continue;
    const auto text = pre_authentication_encoding(envelope.payload_type, envelope.payload);
    if (verify_signature(key.key, text, envelope.signature)) {
      signers_.push_back(key);
    } else {
      report(BundleResult::tampered, "attestation {}: its signature does not verify", report_.attestations);
    }
    return;
  }
  report(BundleResult::untrusted,
         "attestation {} is signed by the key {}, which the trust file does not have", report_.attestations,
         envelope.key_id.substr(0, 250));
}

/// A retired key vouches for nothing that happened later.
void BundleVerifier::check_retired_keys() {
  for (const TrustedKey& key : signers_) {
    if (!key.until_us || newest_us_ < *key.until_us) continue;
    return report(BundleResult::untrusted, "the {} key {} was retired before the newest entry of the bundle",
                  to_string(key.use), key_id_text(key.name, key.key));
  }
}

}  // namespace driftgate::evidence
