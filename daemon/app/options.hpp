#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daemon/app/settings.hpp"
#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/jobs/slurm/chosen_runner.hpp"
#include "daemon/net/server.hpp"
#include "daemon/notify/sender.hpp"
#include "daemon/notify/traces/trace_sender.hpp"
#include "daemon/pipeline/settings.hpp"
#include "daemon/route/control/driver.hpp"
#include "daemon/route/control/spawn.hpp"
#include "schema/error.hpp"

namespace driftgate::app {

// What each part of the daemon is told, made from the settings.

/// Whether HAProxy serves users (`data_plane`).
[[nodiscard]] bool is_behind_haproxy(const Settings& settings);
/// Whether a Gateway of Kubernetes does.
[[nodiscard]] bool is_behind_gateway(const Settings& settings);
/// What the configured data plane can do.
[[nodiscard]] route::Capabilities plane_capabilities(const Settings& settings);
/// The data folder, absolute.
[[nodiscard]] std::filesystem::path data_dir_of(const Settings& settings);
[[nodiscard]] schema::Result<net::ServerOptions> server_options(const Settings& settings);
[[nodiscard]] route::SpawnOptions router_options(const Settings& settings);
/// How Slurm's programs are found.
[[nodiscard]] jobs::SlurmAccess slurm_access(const Settings& settings);
/// Where jobs run. Reads the template of batch scripts: `invalid_document` for one that cannot be used, `io`.
[[nodiscard]] schema::Result<jobs::ChosenRunnerOptions> runner_options(const Settings& settings);
[[nodiscard]] pipeline::Settings pipeline_settings(const Settings& settings, const std::string& version);
/// Endpoints in the order of their names, files made absolute.
[[nodiscard]] std::vector<notify::EndpointSettings> webhook_settings(const Settings& settings);
[[nodiscard]] net::OutgoingPolicy webhook_policy(const Settings& settings);
[[nodiscard]] notify::TraceSettings trace_settings(const Settings& settings);
[[nodiscard]] evidence::HeadOptions head_options(const Settings& settings);
[[nodiscard]] std::filesystem::path backup_dir_of(const Settings& settings);
[[nodiscard]] std::filesystem::path attestation_key_file(const Settings& settings);
/// Of the key that seals sessions.
[[nodiscard]] std::filesystem::path session_key_file(const Settings& settings);

}  // namespace driftgate::app
