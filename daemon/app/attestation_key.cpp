#include "daemon/app/attestation_key.hpp"

#include "daemon/app/options.hpp"
#include "daemon/evidence/keys/key_files.hpp"

namespace driftgate::app {

using schema::Result;

Result<evidence::AttestationSigner> open_attestations(store::Store& store, const Settings& settings,
                                                      std::int64_t now_us) {
  const evidence::KeyFile file{evidence::KeyUse::attestation, attestation_key_file(settings),
                               settings.evidence_origin};
  TRY(evidence::finish_rotation(store, file));
  auto signer = evidence::AttestationSigner::open(file.path.string(), file.name);
  if (!signer) return signer;
  const auto trust = TRY(evidence::load_trust(store.data_dir()));
  TRY(evidence::check_key(trust, file, signer->public_key()));
  TRY(evidence::note_key(store.data_dir(), file, signer->public_key(), 0, now_us));
  return signer;
}

}  // namespace driftgate::app
