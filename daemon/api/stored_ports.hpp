#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "daemon/api/ports.hpp"
#include "daemon/evidence/dsse.hpp"
#include "daemon/evidence/head_publisher.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::api {

/// Gives the wall clock, µs since the epoch.
using NowFunction = std::function<std::int64_t()>;
/// Takes what people who run the daemon must see.
using LogFunction = std::function<void(std::string_view)>;

/// The ports over the daemon's store and log, which must outlive them.
[[nodiscard]] std::unique_ptr<TokenPort> stored_tokens(store::Store& store, NowFunction now_us);
[[nodiscard]] std::unique_ptr<EvidencePort> stored_evidence(store::Store& store,
                                                            evidence::HeadPublisher& heads,
                                                            const evidence::AttestationSigner& attestations,
                                                            NowFunction now_us, LogFunction log_error);
[[nodiscard]] std::unique_ptr<IdempotencyPort> stored_idempotency(store::Store& store, NowFunction now_us);

}  // namespace driftgate::api
