#pragma once

#include <cstdint>

#include "daemon/app/settings.hpp"
#include "daemon/evidence/bundle/dsse.hpp"
#include "daemon/store/store.hpp"
#include "schema/error.hpp"

namespace driftgate::app {

/// The signer of attestations: finishes a rotation of its key that was cut off, loads the key or makes the
/// first one, and notes it in the trust file. `corrupt` for a key that is not the one in force; errors of the
/// key's file.
[[nodiscard]] schema::Result<evidence::AttestationSigner> open_attestations(store::Store& store,
                                                                            const Settings& settings,
                                                                            std::int64_t now_us);

}  // namespace driftgate::app
