#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::app {

/// One endpoint of `webhooks.endpoints`.
struct WebhookSetting {
  std::string url, secret_file;
  std::vector<std::string> events;  ///< empty: all
  bool operator==(const WebhookSetting&) const = default;
};

/// What the daemon's configuration file says. The defaults here are the defaults of the file; the table
/// in settings_table.cpp has unit, limits and text of each.
struct Settings {
  std::string listen = "127.0.0.1:7433";
  std::string port_file;
  std::string data_dir = "~/.local/share/driftgate";
  std::string log_level = "info";
  std::string log_format = "text";
  std::string data_plane = "router";

  std::int64_t http_workers = 4;
  std::int64_t http_max_connections = 1024;
  std::int64_t http_max_connections_per_address = 256;
  std::int64_t http_requests_per_second = 500;
  std::int64_t http_session_s = 43'200;
  std::int64_t http_head_timeout_ms = 10'000;
  std::int64_t http_body_timeout_ms = 30'000;
  std::int64_t http_idle_timeout_ms = 60'000;
  std::int64_t http_write_timeout_ms = 30'000;
  std::int64_t http_body_memory_bytes = 64LL << 20;

  std::string tls_cert_file;
  std::string tls_key_file;
  std::string tls_client_ca_file;

  std::string router_listen = "127.0.0.1:8080";
  std::string router_port_file;
  std::string router_socket;
  std::string router_spool_dir;
  std::vector<std::string> router_further_paths;
  std::int64_t router_spool_cap_bytes = 256LL << 20;
  std::int64_t router_window_ms = 5'000;
  std::int64_t router_lease_ms = 30'000;
  std::int64_t router_request_deadline_ms = 60'000;
  std::int64_t router_connect_timeout_ms = 2'000;
  std::int64_t router_first_byte_timeout_ms = 0;
  std::int64_t router_first_byte_floor_ms = 500;
  std::int64_t router_between_bytes_timeout_ms = 10'000;
  std::int64_t router_breaker_failures = 3;
  std::int64_t router_probe_interval_ms = 2'000;
  std::int64_t router_probe_timeout_ms = 1'000;
  std::int64_t router_threads = 1;
  std::int64_t router_retire_timeout_ms = 600'000;
  std::int64_t router_max_connections = 4'096;
  std::int64_t router_max_connections_per_address = 1'024;
  std::int64_t router_head_timeout_ms = 10'000;
  std::int64_t router_body_timeout_ms = 30'000;
  std::int64_t router_idle_timeout_ms = 60'000;
  std::int64_t router_write_timeout_ms = 30'000;
  std::int64_t router_max_body_bytes = 1LL << 20;
  std::int64_t router_body_memory_bytes = 256LL << 20;

  std::string haproxy_bind = "127.0.0.1:8090";
  std::string haproxy_dir;
  std::string haproxy_socket;
  std::string haproxy_log = "127.0.0.1:7514";
  std::int64_t haproxy_models = 8;
  std::int64_t haproxy_buffer_bytes = 128LL << 10;

  std::string gateway_api = "https://kubernetes.default.svc";
  std::string gateway_ca_file = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
  std::string gateway_token_file = "/var/run/secrets/kubernetes.io/serviceaccount/token";
  std::string gateway_namespace = "default";
  std::string gateway_name = "driftgate";
  std::vector<std::string> gateway_parents;
  std::vector<std::string> gateway_hostnames;
  std::string gateway_router_service = "driftgate-router:8080";
  std::int64_t gateway_watched_share_bp = 10'000;

  std::int64_t jobs_slots = 2;
  std::int64_t jobs_threads = 0;
  std::int64_t jobs_memory_limit_bytes = 8LL << 30;
  std::int64_t jobs_cpu_limit_s = 3'600;
  std::int64_t jobs_wall_limit_s = 3'600;
  std::int64_t jobs_output_cap_bytes = 1LL << 20;

  std::string jobs_runner = "local";
  std::int64_t jobs_ranks = 1;
  std::string jobs_shard = "auto";
  std::string jobs_device = "cpu";

  std::vector<std::string> slurm_kinds{"drift", "capture"};
  std::int64_t slurm_from_bytes = 8LL << 30;
  std::string slurm_jobs_dir;
  std::string slurm_worker;
  std::string slurm_bin_dir;
  std::string slurm_conf_file;
  std::string slurm_partition;
  std::string slurm_account;
  std::string slurm_qos;
  std::string slurm_constraint;
  std::string slurm_gres;
  std::int64_t slurm_nodes = 0;
  std::int64_t slurm_cpus_per_rank = 1;
  std::int64_t slurm_memory_bytes_per_rank = 0;
  std::int64_t slurm_time_limit_s = 0;
  std::string slurm_template;
  std::int64_t slurm_poll_ms = 2'000;
  std::int64_t slurm_queue_limit = 256;
  std::int64_t slurm_resubmissions = 2;
  std::int64_t slurm_away_s = 3'600;

  std::vector<std::string> roots;
  std::map<std::string, std::vector<std::string>> adapters;

  std::vector<std::string> engines_allowed_hosts{"127.0.0.1", "::1", "localhost"};
  bool engines_public_hosts = false;
  std::string engines_files_dir;

  std::string evidence_origin = "driftgate.local/log";
  std::string evidence_head_file;
  std::string evidence_key_file;
  std::string evidence_backup_dir;
  std::string evidence_attestation_key_file;

  std::vector<std::string> schedule_blackouts;
  std::string schedule_report;

  std::int64_t pipeline_max_rescored = 256;
  std::int64_t pipeline_pause_deadline_s = 86'400;
  std::int64_t pipeline_inconclusive_deadline_s = 86'400;
  std::int64_t pipeline_sample_share_bp = 2'000;
  std::int64_t pipeline_sample_token_budget = 1'000'000;

  std::map<std::string, WebhookSetting> webhooks_endpoints;
  std::vector<std::string> webhooks_allowed_hosts;
  bool webhooks_public_hosts = true;

  std::string otlp_endpoint;
  std::string otlp_key_file;
  std::string otlp_key_header;
  std::string otlp_ca_file;
};

/// One setting: a key "section.name" or "name", where it goes, and what the reference says.
struct SettingSpec {
  using Target = std::variant<std::string Settings::*, std::int64_t Settings::*, bool Settings::*,
                              std::vector<std::string> Settings::*,
                              std::map<std::string, std::vector<std::string>> Settings::*,
                              std::map<std::string, WebhookSetting> Settings::*>;
  std::string_view key;
  Target target;
  std::string_view unit;  ///< empty for what has none
  std::int64_t min = 0;   ///< of whole numbers
  std::int64_t max = 0;
  std::string_view text;
  std::vector<std::string_view> choices{};  ///< of texts and of the items of a list; empty: free
};

/// The table, in the order of the documented file.
[[nodiscard]] std::span<const SettingSpec> setting_specs();

/// Reads a configuration file's text. All faults at once, one a line, "NAME:line:column: …": unknown and
/// doubled keys (with the nearest known one), wrong types, values out of range. `invalid_document`.
[[nodiscard]] schema::Result<Settings> parse_settings(std::string_view yaml, std::string_view name);

/// Reads the file; the defaults without a path. `data_dir` replaces the configured one unless it is empty.
/// `io` when the file cannot be read, `limit_exceeded` above 256 KB.
[[nodiscard]] schema::Result<Settings> load_settings(const std::string& path, const std::string& data_dir);

/// A leading "~/" becomes the home folder.
[[nodiscard]] std::string expand_home(const std::string& path);

/// configs/driftgate.yaml: every key with its default, documented.
[[nodiscard]] std::string settings_yaml();
/// docs/settings.md: the same as a table.
[[nodiscard]] std::string settings_markdown();
/// What GET /v1/settings answers: each setting with its value in force, its default, its text and whether
/// they differ.
[[nodiscard]] std::string settings_json(const Settings& settings);

}  // namespace driftgate::app
