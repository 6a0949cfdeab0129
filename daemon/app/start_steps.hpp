#pragma once

#include <cstdint>
#include <memory>

#include "daemon/app/logging.hpp"
#include "daemon/app/settings.hpp"
#include "daemon/evidence/bundle/dsse.hpp"
#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/evidence/verify/background_check.hpp"
#include "daemon/jobs/slurm/chosen_runner.hpp"
#include "daemon/route/control/router_driver.hpp"
#include "daemon/route/worker/router_options.hpp"
#include "daemon/store/store.hpp"
#include "schema/error.hpp"

namespace driftgate::app {

// Steps of the start that leave nothing running except what they return.

/// The signer of attestations: finishes a rotation of its key that was cut off, loads the key or makes the
/// first one, and notes it in the trust file. `corrupt` for a key that is not the one in force; errors of the
/// key's file.
[[nodiscard]] schema::Result<evidence::AttestationSigner> open_attestations(store::Store& store,
                                                                            const Settings& settings,
                                                                            std::int64_t now_us);

/// Refuses, with `corrupt`, tables that differ from the log: the daemon would serve or admit what they
/// name. Each difference is logged.
[[nodiscard]] schema::Result<void> compare_tables(store::Store& store, const Log& log);

/// On an empty database: the first admin token, into a file of the data folder that the log names.
[[nodiscard]] schema::Result<void> admit_first_admin(store::Store& store, const Settings& settings,
                                                     const Log& log, std::int64_t now_us);

/// Forgets requests by Idempotency-Key that are a week old or that the previous daemon did not finish.
[[nodiscard]] schema::Result<void> forget_requests(store::Store& store, std::int64_t now_us);

/// Refuses, with `invalid_argument`, settings with which no router could start: further paths that are none,
/// a port that is picked anew although HAProxy's configuration or the router's Service names it, and a
/// Gateway of which no HTTPRoute can be written.
[[nodiscard]] schema::Result<void> check_router_settings(const Settings& settings,
                                                         const route::RouterOptions& options);

/// Refuses settings with which no job could be sent to Slurm although some shall be: values that are none,
/// programs of Slurm that are missing. A controller that does not answer is logged: it may come back.
[[nodiscard]] schema::Result<void> check_slurm(const jobs::ChosenRunnerOptions& options, const Log& log);

/// The part of check_slurm that asks no controller.
[[nodiscard]] schema::Result<void> check_slurm_programs(const jobs::ChosenRunnerOptions& options);

/// The API's listening socket, where the process that started this one handed one over as systemd does
/// (sd_listen_fds(3)): connections then wait while one daemon follows another. -1 when there is none.
/// `invalid_argument` for more than one.
[[nodiscard]] schema::Result<int> inherited_api_socket();

/// Refuses, with `conflict`, a router that was adopted with another data plane than the configured one.
[[nodiscard]] schema::Result<void> check_data_plane(const Settings& settings, const route::RouterInfo& router,
                                                    const std::string& control_path);

/// Compares the whole record with the head that is signed now, beside the daemon's work; differences are
/// logged.
[[nodiscard]] schema::Result<std::unique_ptr<evidence::BackgroundCheck>> check_record(
    store::Store& store, evidence::HeadPublisher& heads, const Log& log);

}  // namespace driftgate::app
