#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "daemon/api/ports.hpp"
#include "daemon/evidence/bundle/dsse.hpp"
#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::api {

/// Gives the wall clock, µs since the epoch.
using NowFunction = std::function<std::int64_t()>;
/// Takes what people who run the daemon must see.
using LogFunction = std::function<void(std::string_view)>;

/// The ports over the daemon's store and log, which must outlive them.
/// `on_revoked` is called after each revocation and each end of a session: what waits looks again at whether
/// it may. May be empty. With the default `sessions`, no session outlives the process.
[[nodiscard]] std::unique_ptr<TokenPort> stored_tokens(store::Store& store, NowFunction now_us,
                                                       std::function<void()> on_revoked = {},
                                                       const auth::SessionOptions& sessions = {});
/// `warn` gets a line for each read that is served although it cannot be recorded yet, `log_error` one for each
/// bundle that does not verify and so is not handed out.
[[nodiscard]] std::unique_ptr<EvidencePort> stored_evidence(store::Store& store,
                                                            evidence::HeadPublisher& heads,
                                                            const evidence::AttestationSigner& attestations,
                                                            NowFunction now_us, LogFunction warn,
                                                            LogFunction log_error);
[[nodiscard]] std::unique_ptr<IdempotencyPort> stored_idempotency(store::Store& store, NowFunction now_us);

}  // namespace driftgate::api
