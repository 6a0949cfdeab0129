#include "daemon/app/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "daemon/base/clock.hpp"
#include "daemon/base/read_file.hpp"
#include "daemon/route/relay/endpoint.hpp"
#include "daemon/route/worker/core.hpp"

namespace driftgate::app {
namespace {

namespace fs = std::filesystem;

fs::path configured_or(const std::string& configured, const fs::path& fallback) {
  return configured.empty() ? fallback : fs::absolute(expand_home(configured));
}

/// The path of the program that runs, which the nodes have under the same one unless slurm.worker says
/// otherwise.
fs::path own_program() {
  std::error_code error;
  auto path = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path("driftgate") : path;
}

std::string joined(const std::vector<std::string>& paths) {
  std::string list;
  for (const auto& path : paths) list.append(list.empty() ? "" : ",").append(path);
  return list;
}

/// How long engines may take, and when one counts as gone.
void set_engine_limits(const Settings& settings, route::RouterOptions& options) {
  options.request_deadline_ms = static_cast<std::uint32_t>(settings.router_request_deadline_ms);
  options.connect_ms = static_cast<std::uint32_t>(settings.router_connect_timeout_ms);
  options.first_byte_ms = static_cast<std::uint32_t>(settings.router_first_byte_timeout_ms);
  options.first_byte_floor_ms = static_cast<std::uint32_t>(settings.router_first_byte_floor_ms);
  options.between_ms = static_cast<std::uint32_t>(settings.router_between_bytes_timeout_ms);
  options.breaker_failures = static_cast<std::uint32_t>(settings.router_breaker_failures);
  options.probe_ms = static_cast<std::uint32_t>(settings.router_probe_interval_ms);
  options.probe_timeout_ms = static_cast<std::uint32_t>(settings.router_probe_timeout_ms);
}

/// What clients of the router may take.
void set_router_limits(const Settings& settings, route::RouterOptions& options) {
  options.max_connections = static_cast<std::uint32_t>(settings.router_max_connections);
  options.max_connections_per_address =
      static_cast<std::uint32_t>(settings.router_max_connections_per_address);
  options.header_ms = static_cast<std::uint32_t>(settings.router_head_timeout_ms);
  options.body_ms = static_cast<std::uint32_t>(settings.router_body_timeout_ms);
  options.idle_ms = static_cast<std::uint32_t>(settings.router_idle_timeout_ms);
  options.write_stall_ms = static_cast<std::uint32_t>(settings.router_write_timeout_ms);
  options.max_body_bytes = static_cast<std::uint64_t>(settings.router_max_body_bytes);
  options.body_memory_bytes = static_cast<std::uint64_t>(settings.router_body_memory_bytes);
}

/// HAProxy in front of the router, through which all users reach it.
void set_haproxy(const Settings& settings, route::RouterOptions& options) {
  const fs::path folder = configured_or(settings.haproxy_dir, data_dir_of(settings) / "haproxy");
  options.haproxy_dir = folder;
  options.haproxy_socket = configured_or(settings.haproxy_socket, folder / "admin.sock");
  options.haproxy_log = settings.haproxy_log;
  options.haproxy_bind = settings.haproxy_bind;
  options.haproxy_models = static_cast<std::uint32_t>(settings.haproxy_models);
  options.haproxy_buffer_bytes = static_cast<std::uint32_t>(settings.haproxy_buffer_bytes);
  options.max_connections_per_address = options.max_connections;
}

/// A Gateway in front of the router, through which users reach it or an engine.
void set_gateway(const Settings& settings, route::RouterOptions& options) {
  options.gateway_api = settings.gateway_api;
  options.gateway_ca_file = configured_or(settings.gateway_ca_file, {});
  options.gateway_token_file = configured_or(settings.gateway_token_file, {});
  options.gateway_namespace = settings.gateway_namespace;
  options.gateway_name = settings.gateway_name;
  options.gateway_parents = fmt::format("{}", fmt::join(settings.gateway_parents, ","));
  options.gateway_hostnames = fmt::format("{}", fmt::join(settings.gateway_hostnames, ","));
  options.gateway_router = settings.gateway_router_service;
  options.gateway_watched_bp = static_cast<std::uint32_t>(settings.gateway_watched_share_bp);
  options.max_connections_per_address = options.max_connections;
}

}  // namespace

bool is_behind_haproxy(const Settings& settings) {
  return settings.data_plane == "haproxy";
}

bool is_behind_gateway(const Settings& settings) {
  return settings.data_plane == "gateway_api";
}

route::Capabilities plane_capabilities(const Settings& settings) {
  if (is_behind_haproxy(settings)) return route::haproxy_capabilities();
  if (is_behind_gateway(settings))
    return route::gateway_capabilities(static_cast<std::uint32_t>(settings.gateway_watched_share_bp));
  return route::router_capabilities();
}

fs::path data_dir_of(const Settings& settings) {
  return fs::absolute(expand_home(settings.data_dir)).lexically_normal();
}

schema::Result<net::ServerOptions> server_options(const Settings& settings) {
  const auto endpoint = route::parse_authority(settings.listen);
  if (!endpoint) return schema::wrap(endpoint.error(), "setting 'listen' must be ADDRESS:PORT");
  net::ServerOptions options;
  options.address = endpoint->host == "localhost" ? "127.0.0.1" : endpoint->host;
  options.port = endpoint->port;
  options.worker_threads = static_cast<std::size_t>(settings.http_workers);
  options.tls = {configured_or(settings.tls_cert_file, {}).string(),
                 configured_or(settings.tls_key_file, {}).string(),
                 configured_or(settings.tls_client_ca_file, {}).string()};
  options.max_connections = static_cast<std::size_t>(settings.http_max_connections);
  options.max_connections_per_address = static_cast<std::size_t>(settings.http_max_connections_per_address);
  options.head_timeout = std::chrono::milliseconds(settings.http_head_timeout_ms);
  options.body_timeout = std::chrono::milliseconds(settings.http_body_timeout_ms);
  options.idle_timeout = std::chrono::milliseconds(settings.http_idle_timeout_ms);
  options.write_timeout = std::chrono::milliseconds(settings.http_write_timeout_ms);
  options.body_memory_bytes = static_cast<std::size_t>(settings.http_body_memory_bytes);
  return options;
}

route::SpawnOptions router_options(const Settings& settings) {
  const fs::path data = data_dir_of(settings);
  route::SpawnOptions options;
  options.log_path = data / "router.log";
  // Said by who starts the daemon, as LISTEN_FDS is: it belongs to the service and not to the settings.
  if (const char* const launcher = std::getenv("DRIFTGATE_ROUTER_LAUNCHER")) options.launcher = launcher;
  options.router.listen = settings.router_listen;
  options.router.port_file =
      settings.router_port_file.empty() ? "" : fs::absolute(expand_home(settings.router_port_file)).string();
  options.router.control_path = configured_or(settings.router_socket, data / "router.sock");
  options.router.spool_dir = configured_or(settings.router_spool_dir, data / "spool");
  options.router.state_path = data / "router.state";
  options.router.further_paths = joined(settings.router_further_paths);
  options.router.spool_cap_bytes = static_cast<std::uint64_t>(settings.router_spool_cap_bytes);
  options.router.window_ms = static_cast<std::uint32_t>(settings.router_window_ms);
  options.router.lease_ms = static_cast<std::uint32_t>(settings.router_lease_ms);
  options.router.threads = static_cast<std::uint32_t>(settings.router_threads);
  options.router.retire_ms = static_cast<std::uint32_t>(settings.router_retire_timeout_ms);
  set_engine_limits(settings, options.router);
  set_router_limits(settings, options.router);
  if (is_behind_haproxy(settings)) set_haproxy(settings, options.router);
  if (is_behind_gateway(settings)) set_gateway(settings, options.router);
  return options;
}

jobs::SlurmAccess slurm_access(const Settings& settings) {
  jobs::SlurmAccess access;
  access.bin_dir = configured_or(settings.slurm_bin_dir, {});
  access.conf_file = configured_or(settings.slurm_conf_file, {});
  return access;
}

jobs::SlurmResources slurm_resources(const Settings& settings) {
  jobs::SlurmResources resources;
  resources.partition = settings.slurm_partition;
  resources.account = settings.slurm_account;
  resources.qos = settings.slurm_qos;
  resources.constraint = settings.slurm_constraint;
  resources.gres = settings.slurm_gres;
  resources.nodes = static_cast<std::uint32_t>(settings.slurm_nodes);
  resources.cpus_per_rank = static_cast<std::uint32_t>(settings.slurm_cpus_per_rank);
  resources.memory_bytes_per_rank = static_cast<std::uint64_t>(settings.slurm_memory_bytes_per_rank);
  resources.time_limit_s = settings.slurm_time_limit_s;
  return resources;
}

schema::Result<jobs::ChosenRunnerOptions> runner_options(const Settings& settings) {
  const fs::path folder = data_dir_of(settings) / "jobs";
  jobs::ChosenRunnerOptions options;
  options.choice = settings.jobs_runner == "slurm"  ? jobs::RunnerChoice::slurm
                   : settings.jobs_runner == "auto" ? jobs::RunnerChoice::automatic
                                                    : jobs::RunnerChoice::local;
  for (const auto& name : settings.slurm_kinds) {
    if (const auto kind = jobs::kind_from_name(name)) options.slurm_kinds.push_back(*kind);
  }
  options.slurm_from_bytes = static_cast<std::uint64_t>(settings.slurm_from_bytes);
  options.local.jobs_dir = folder;
  options.local.slots = static_cast<std::size_t>(settings.jobs_slots);
  auto& slurm = options.slurm;
  slurm.jobs_dir = configured_or(settings.slurm_jobs_dir, folder);
  slurm.access = slurm_access(settings);
  slurm.resources = slurm_resources(settings);
  slurm.worker = configured_or(settings.slurm_worker, own_program()).string();
  slurm.poll = std::chrono::milliseconds(settings.slurm_poll_ms);
  slurm.away = std::chrono::seconds(settings.slurm_away_s);
  slurm.queue_limit = static_cast<std::size_t>(settings.slurm_queue_limit);
  slurm.resubmissions = static_cast<std::uint32_t>(settings.slurm_resubmissions);
  if (settings.slurm_template.empty() || options.choice == jobs::RunnerChoice::local) return options;
  auto text = TRY(base::read_file(configured_or(settings.slurm_template, {})));
  if (auto usable = jobs::check_template(text); !usable)
    return schema::wrap(usable.error(), fmt::format("the template {} (slurm.template) cannot be used",
                                                    settings.slurm_template));
  slurm.script_template = std::move(text);
  return options;
}

pipeline::Settings pipeline_settings(const Settings& settings, const std::string& version) {
  jobs::JobLimits limits;
  limits.address_space_bytes = static_cast<std::uint64_t>(settings.jobs_memory_limit_bytes);
  limits.cpu_seconds = static_cast<std::uint64_t>(settings.jobs_cpu_limit_s);
  limits.wall_ms = settings.jobs_wall_limit_s * 1'000;
  limits.output_bytes = static_cast<std::uint64_t>(settings.jobs_output_cap_bytes);

  pipeline::Settings options;
  for (const std::string& root : settings.roots) options.roots.push_back(fs::absolute(expand_home(root)));
  for (const auto& [name, argv] : settings.adapters) options.adapters[name] = {argv, limits};
  options.outgoing.allowed_hosts = settings.engines_allowed_hosts;
  options.outgoing.public_hosts = settings.engines_public_hosts;
  options.engine_files =
      fs::absolute(configured_or(settings.engines_files_dir, data_dir_of(settings) / "engine-files"))
          .string();
  options.drift_limits = limits;
  options.rescore_limits = limits;
  options.job_threads = static_cast<std::uint32_t>(settings.jobs_threads);
  options.job_ranks = static_cast<std::uint32_t>(settings.jobs_ranks);
  options.job_shard = settings.jobs_shard;
  options.job_device = settings.jobs_device;
  options.max_rescored = static_cast<std::uint32_t>(settings.pipeline_max_rescored);
  // Often enough that a window is seen soon after it closed, and that the lease never expires.
  options.telemetry_ms = std::clamp<std::int64_t>(settings.router_window_ms / 10, 20, 500);
  options.heartbeat_ms = std::clamp<std::int64_t>(settings.router_lease_ms / 10, 100, 1'000);
  options.pause_deadline_ms = settings.pipeline_pause_deadline_s * 1'000;
  options.inconclusive_deadline_ms = settings.pipeline_inconclusive_deadline_s * 1'000;
  options.sample_bp = static_cast<std::uint32_t>(settings.pipeline_sample_share_bp);
  options.sample_token_budget = static_cast<std::uint64_t>(settings.pipeline_sample_token_budget);
  options.blackouts = settings.schedule_blackouts;
  options.report = settings.schedule_report;
  options.code_version = version;
  return options;
}

std::vector<notify::EndpointSettings> webhook_settings(const Settings& settings) {
  std::vector<notify::EndpointSettings> endpoints;
  for (const auto& [name, webhook] : settings.webhooks_endpoints)
    endpoints.push_back(
        {name, webhook.url, fs::absolute(expand_home(webhook.secret_file)).string(), webhook.events});
  return endpoints;
}

net::OutgoingPolicy webhook_policy(const Settings& settings) {
  return {settings.webhooks_allowed_hosts, settings.webhooks_public_hosts, "webhooks"};
}

notify::TraceSettings trace_settings(const Settings& settings) {
  const auto path = [](const std::string& file) {
    return file.empty() ? file : fs::absolute(expand_home(file)).string();
  };
  return {settings.otlp_endpoint,
          {path(settings.otlp_key_file), settings.otlp_key_header, path(settings.otlp_ca_file)}};
}

evidence::HeadOptions head_options(const Settings& settings) {
  const fs::path data = data_dir_of(settings);
  evidence::HeadOptions options;
  options.origin = settings.evidence_origin;
  options.key_file = configured_or(settings.evidence_key_file, data / "log.key");
  options.head_file = configured_or(settings.evidence_head_file, data / "head.note");
  options.now_us = base::wall_clock_us();
  return options;
}

fs::path backup_dir_of(const Settings& settings) {
  return configured_or(settings.evidence_backup_dir, data_dir_of(settings) / "backups");
}

fs::path attestation_key_file(const Settings& settings) {
  return configured_or(settings.evidence_attestation_key_file, data_dir_of(settings) / "attestation.key");
}

fs::path session_key_file(const Settings& settings) {
  return data_dir_of(settings) / "session.key";
}

}  // namespace driftgate::app
