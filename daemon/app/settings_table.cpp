#include "daemon/app/settings.hpp"

namespace driftgate::app {
namespace {

constexpr std::int64_t kMaxBytes = 1LL << 50;
constexpr std::int64_t kYear_s = 366LL * 86'400;

using S = Settings;

const SettingSpec kSpecs[] = {
    {"listen", &S::listen, "", 0, 0,
     "Address and port of the API; port 0 picks a free one. Loopback unless it speaks TLS (tls.cert_file) or "
     "a proxy with TLS stands in front."},
    {"port_file", &S::port_file, "", 0, 0,
     "File that gets the API's port as text once it listens; empty: none."},
    {"data_dir", &S::data_dir, "", 0, 0,
     "Folder of the database, job folders, keys and the first admin token; created with mode 0700."},
    {"log.level",
     &S::log_level,
     "",
     0,
     0,
     "Least severity that is logged to standard error.",
     {"debug", "info", "warn", "error"}},
    {"log.format", &S::log_format, "", 0, 0, "How log lines look.", {"text", "json"}},
    {"data_plane",
     &S::data_plane,
     "",
     0,
     0,
     "What serves users: the embedded router alone, or HAProxy or a Gateway of Kubernetes in front of it "
     "(docs/data_planes.md). A change takes effect once the router was stopped (driftgate router-stop).",
     {"router", "haproxy", "gateway_api"}},

    {"http.workers", &S::http_workers, "", 1, 64, "Threads that answer API requests."},
    {"http.max_connections", &S::http_max_connections, "", 1, 100'000,
     "Open connections to the API; fewer where the limit of open files (RLIMIT_NOFILE) has no room for so "
     "many. At the limit the client that holds most loses its oldest idle connection."},
    {"http.max_connections_per_address", &S::http_max_connections_per_address, "", 1, 100'000,
     "Open connections from one address, or from one IPv6 /64; at the limit its oldest idle one is closed. "
     "Raise it where a proxy stands in front and all clients come from its address."},
    {"http.requests_per_second", &S::http_requests_per_second, "1/s", 1, 1'000'000,
     "Requests of one token, on average; twice as many at once."},
    {"http.session_s", &S::http_session_s, "s", 60, 30 * 86'400,
     "How long a sign-in to the page lasts; never longer than its token."},
    {"http.head_timeout_ms", &S::http_head_timeout_ms, "ms", 10, 600'000,
     "From the first byte of a request's head to its last."},
    {"http.body_timeout_ms", &S::http_body_timeout_ms, "ms", 10, 600'000,
     "From the end of a request's head to the last byte of its body."},
    {"http.idle_timeout_ms", &S::http_idle_timeout_ms, "ms", 10, 600'000,
     "A connection without a request is closed after this."},
    {"http.write_timeout_ms", &S::http_write_timeout_ms, "ms", 10, 600'000,
     "A client that does not take a piece of its answer within this is cut off."},
    {"http.body_memory_bytes", &S::http_body_memory_bytes, "bytes", 1 << 20, kMaxBytes,
     "Memory of all bodies together that have not arrived as a whole. Beyond it the client with most of them "
     "loses its oldest, or gets 503."},

    {"tls.cert_file", &S::tls_cert_file, "", 0, 0,
     "Certificate chain of the API (PEM); empty: plain HTTP. Read at the start; a new one takes effect at "
     "the next start."},
    {"tls.key_file", &S::tls_key_file, "", 0, 0, "Key of the certificate (PEM)."},
    {"tls.client_ca_file", &S::tls_client_ca_file, "", 0, 0,
     "Clients must show a certificate of this CA (PEM), beside their token; empty: they need none."},

    {"router.listen", &S::router_listen, "", 0, 0, "Address and port where users' traffic comes in."},
    {"router.port_file", &S::router_port_file, "", 0, 0,
     "File that gets the router's port as text; empty: none."},
    {"router.socket", &S::router_socket, "", 0, 0,
     "Unix socket between daemon and router; empty: router.sock in data_dir."},
    {"router.spool_dir", &S::router_spool_dir, "", 0, 0,
     "Folder of mirrored prompts and answers, deleted at the end of their stage; empty: spool in "
     "data_dir."},
    {"router.further_paths", &S::router_further_paths, "", 0, 0,
     "Paths beside those of docs/endpoints.md that are passed on to the engine of a request's model: exact "
     "ones, or /v1/audio/* for all below one, at most 64. Their requests are counted and not judged. "
     "A change takes effect when the router is replaced."},
    {"router.spool_cap_bytes", &S::router_spool_cap_bytes, "bytes", 1 << 20, kMaxBytes,
     "Most bytes in the spool folder; beyond it nothing is mirrored."},
    {"router.window_ms", &S::router_window_ms, "ms", 50, 600'000,
     "Telemetry window: how often online clauses are evaluated."},
    {"router.lease_ms", &S::router_lease_ms, "ms", 1'000, 3'600'000,
     "Lease of the candidate: without a heartbeat from the daemon for this long, the router takes the "
     "candidate to 0% traffic."},
    {"router.request_deadline_ms", &S::router_request_deadline_ms, "ms", 100, 3'600'000,
     "From routing a request to the last byte of its answer. A streamed answer may take longer once it has "
     "begun, as long as it goes on (router.between_bytes_timeout_ms)."},
    {"router.connect_timeout_ms", &S::router_connect_timeout_ms, "ms", 10, 600'000,
     "Connecting to an engine."},
    {"router.first_byte_timeout_ms", &S::router_first_byte_timeout_ms, "ms", 0, 3'600'000,
     "From sending a request for a streamed answer to the first byte that can be passed on. 0: learned for "
     "each engine, twice the 99th percentile of its newest one to two thousand answers and "
     "router.first_byte_floor_ms; without a limit until it has given 32. Answers that are not streamed have "
     "a learned limit of their own, to their last byte. No limit is above router.request_deadline_ms."},
    {"router.first_byte_floor_ms", &S::router_first_byte_floor_ms, "ms", 0, 600'000,
     "Added to twice what was learned of an engine's first byte."},
    {"router.between_bytes_timeout_ms", &S::router_between_bytes_timeout_ms, "ms", 100, 3'600'000,
     "Between two parts of a streamed answer: an engine that is silent for longer has failed, and its stream "
     "is broken off."},
    {"router.breaker_failures", &S::router_breaker_failures, "", 0, 1'000,
     "Failures in a row (cannot connect, no answer, first byte late, probe not answered) that open the "
     "breaker of an engine. While a candidate's breaker is open its requests go to the incumbent at once. "
     "0: it never opens."},
    {"router.probe_interval_ms", &S::router_probe_interval_ms, "ms", 0, 600'000,
     "Between two probes of each engine of each route: GET /health, or GET /v1/models where that is not "
     "offered. 0: none."},
    {"router.probe_timeout_ms", &S::router_probe_timeout_ms, "ms", 10, 60'000,
     "For the answer to a probe; a third of it while the engine is in trouble."},
    {"router.threads", &S::router_threads, "", 1, 16, "Event loops of the router."},
    {"router.retire_timeout_ms", &S::router_retire_timeout_ms, "ms", 0, 86'400'000,
     "A router that another one follows on the same sockets (an upgrade, changed settings) may go on "
     "for this long with the requests and streams that it has. What then is left is broken off and counted."},
    {"router.max_connections", &S::router_max_connections, "", 1, 1'000'000,
     "Open connections of users to the router; fewer where the limit of open files (RLIMIT_NOFILE) has no "
     "two descriptors for each. At the limit the client that holds most loses its oldest idle connection. "
     "This setting and those below take effect when the router is replaced, which a start of the daemon with "
     "changed settings does."},
    {"router.max_connections_per_address", &S::router_max_connections_per_address, "", 1, 1'000'000,
     "Open connections from one address, or from one IPv6 /64; at the limit its oldest idle one is closed. "
     "Raise it where a proxy stands in front and all users come from its address."},
    {"router.head_timeout_ms", &S::router_head_timeout_ms, "ms", 10, 600'000,
     "From the first byte of a request's head to its last."},
    {"router.body_timeout_ms", &S::router_body_timeout_ms, "ms", 10, 600'000,
     "From the end of a request's head to the last byte of its body."},
    {"router.idle_timeout_ms", &S::router_idle_timeout_ms, "ms", 10, 600'000,
     "A connection without a request is closed after this."},
    {"router.write_timeout_ms", &S::router_write_timeout_ms, "ms", 10, 600'000,
     "A user who does not take a piece of an answer within this is cut off."},
    {"router.max_body_bytes", &S::router_max_body_bytes, "bytes", 1'024, 1LL << 30,
     "Largest body of a request; larger ones are answered with 413."},
    {"router.body_memory_bytes", &S::router_body_memory_bytes, "bytes", 1 << 20, kMaxBytes,
     "Memory of all bodies together that have not arrived as a whole. Beyond it the client with most of them "
     "loses its oldest, or gets 503."},

    {"haproxy.bind", &S::haproxy_bind, "", 0, 0,
     "With data_plane haproxy: where users' traffic comes in, as it stands behind 'bind' in HAProxy's "
     "configuration, such as ':443 ssl crt /etc/haproxy/site.pem'. router.listen then needs a fixed port "
     "of its own, which only HAProxy has to reach."},
    {"haproxy.dir", &S::haproxy_dir, "", 0, 0,
     "Folder of the files that HAProxy starts with, driftgate.cfg among them; empty: haproxy in data_dir."},
    {"haproxy.socket", &S::haproxy_socket, "", 0, 0,
     "HAProxy's runtime socket; empty: admin.sock in haproxy.dir."},
    {"haproxy.log", &S::haproxy_log, "", 0, 0,
     "Where the router receives HAProxy's log: a loopback address with a port (UDP), or the path of a "
     "Unix socket, which a HAProxy in a chroot cannot reach."},
    {"haproxy.models", &S::haproxy_models, "", 1, 64,
     "Backends in HAProxy's configuration, one for each model. This setting and the others of haproxy "
     "take effect at the next start of the router, and with a reload of HAProxy."},
    {"haproxy.buffer_bytes", &S::haproxy_buffer_bytes, "bytes", 16'384, 1 << 20,
     "HAProxy's tune.bufsize: what it can read of a request's body. Larger bodies are placed by their "
     "headers driftgate-model, driftgate-key and driftgate-slice, or by the router."},

    {"gateway.api", &S::gateway_api, "", 0, 0,
     "With data_plane gateway_api: URL of the Kubernetes API, https except on loopback. This setting and the "
     "others of gateway take effect at the next start of the router."},
    {"gateway.ca_file", &S::gateway_ca_file, "", 0, 0,
     "CA of the Kubernetes API (PEM); empty: the system's list."},
    {"gateway.token_file", &S::gateway_token_file, "", 0, 0,
     "Token of the service account, read again for each exchange, since it is replaced from time to time."},
    {"gateway.namespace", &S::gateway_namespace, "", 0, 0, "Namespace of the HTTPRoutes that are written."},
    {"gateway.name", &S::gateway_name, "", 0, 0,
     "Name of this installation, with which its HTTPRoutes begin: each daemon of a namespace needs its own."},
    {"gateway.parents", &S::gateway_parents, "", 0, 0,
     "Gateways that users reach: NAME, NAMESPACE/NAME, or NAMESPACE/NAME/LISTENER."},
    {"gateway.hostnames", &S::gateway_hostnames, "", 0, 0,
     "Hostnames of users' requests; without any, all that the Gateways serve."},
    {"gateway.router_service", &S::gateway_router_service, "", 0, 0,
     "Service in front of the router's port (router.listen), as NAME:PORT or NAME.NAMESPACE:PORT."},
    {"gateway.watched_share_bp", &S::gateway_watched_share_bp, "bp", 0, 10'000,
     "Share of the requests for a model without a candidate that pass the router; the rest goes straight to "
     "the engine, if its URL names a Service, and is counted and guarded by nobody."},

    {"jobs.slots", &S::jobs_slots, "", 1, 64, "Worker processes at once."},
    {"jobs.threads", &S::jobs_threads, "", 0, 1'024, "Threads of a drift job; 0: all cores."},
    {"jobs.memory_limit_bytes", &S::jobs_memory_limit_bytes, "bytes", 0, kMaxBytes,
     "Address space of a worker on this machine that uses no CUDA; 0: no limit. Captures are mapped, so it "
     "must "
     "exceed their size."},
    {"jobs.cpu_limit_s", &S::jobs_cpu_limit_s, "s", 0, kYear_s,
     "CPU time of a worker on this machine, of all its threads; 0: no limit."},
    {"jobs.wall_limit_s", &S::jobs_wall_limit_s, "s", 1, kYear_s,
     "A worker that takes longer is killed with its children."},
    {"jobs.output_cap_bytes", &S::jobs_output_cap_bytes, "bytes", 0, 1LL << 30,
     "Output of an adapter program that is kept."},

    {"jobs.runner",
     &S::jobs_runner,
     "",
     0,
     0,
     "Where workers run: on this machine; or jobs of the kinds slurm.kinds on the cluster that Slurm "
     "manages; "
     "or (auto) such jobs only with more than one rank or with input files above slurm.from_bytes "
     "(docs/slurm.md). A job that has started stays where it is when this changes.",
     {"local", "slurm", "auto"}},
    {"jobs.ranks", &S::jobs_ranks, "", 1, 4'096,
     "Ranks that measure a drift job together: MPI processes on a cluster, threads where there is no MPI."},
    {"jobs.shard",
     &S::jobs_shard,
     "",
     0,
     0,
     "What ranks share out: rows; or the vocabulary, for rows that fit into no device's memory; auto: rows "
     "where memory allows.",
     {"auto", "rows", "vocab"}},
    {"jobs.device",
     &S::jobs_device,
     "",
     0,
     0,
     "What measures a drift job: processors, or the CUDA devices that its ranks see (on Slurm those of "
     "slurm.gres).",
     {"cpu", "cuda"}},

    {"slurm.kinds",
     &S::slurm_kinds,
     "",
     0,
     0,
     "Kinds of jobs that may run on Slurm. Captures and rescoring ask engines, which the nodes must reach; "
     "for "
     "rescoring router.spool_dir and engines.files_dir must lie on a file system that the nodes share too.",
     {"drift", "capture", "rescore"}},
    {"slurm.from_bytes", &S::slurm_from_bytes, "bytes", 0, kMaxBytes,
     "With jobs.runner auto: a job goes to Slurm when its input files together are larger."},
    {"slurm.jobs_dir", &S::slurm_jobs_dir, "", 0, 0,
     "Folder of the jobs, on a file system that all nodes share and that has flock; the files below roots "
     "must lie on such a one too. Empty: jobs in data_dir. While a job at Slurm lies in another folder, the "
     "daemon does not start."},
    {"slurm.worker", &S::slurm_worker, "", 0, 0,
     "Path of driftgate on the nodes, of the daemon's version; empty: the daemon's own path."},
    {"slurm.bin_dir", &S::slurm_bin_dir, "", 0, 0,
     "Folder of sbatch, squeue, scancel, scontrol and sacct; empty: /usr/local/bin, /usr/bin or /bin."},
    {"slurm.conf_file", &S::slurm_conf_file, "", 0, 0, "slurm.conf (SLURM_CONF); empty: the system's."},
    {"slurm.partition", &S::slurm_partition, "", 0, 0, "Partition of the jobs; empty: Slurm's default."},
    {"slurm.account", &S::slurm_account, "", 0, 0, "Account that pays; empty: Slurm's default."},
    {"slurm.qos", &S::slurm_qos, "", 0, 0, "Quality of service; empty: Slurm's default."},
    {"slurm.constraint", &S::slurm_constraint, "", 0, 0,
     "Features that the nodes must have (sbatch --constraint); empty: none."},
    {"slurm.gres", &S::slurm_gres, "", 0, 0,
     "GPUs of each rank of a drift job, and of a capture: gpu:COUNT or gpu:TYPE:COUNT; empty: none."},
    {"slurm.nodes", &S::slurm_nodes, "", 0, 4'096,
     "Nodes over which the ranks of a drift job are spread; 0: Slurm chooses."},
    {"slurm.cpus_per_rank", &S::slurm_cpus_per_rank, "", 1, 1'024, "Processors of each rank."},
    {"slurm.memory_bytes_per_rank", &S::slurm_memory_bytes_per_rank, "bytes", 0, kMaxBytes,
     "Memory of each rank, given to Slurm in whole MiB for each processor; 0: Slurm's default."},
    {"slurm.time_limit_s", &S::slurm_time_limit_s, "s", 0, kYear_s,
     "Time limit of one submission, in whole minutes; at the limit the job is submitted again when it got "
     "further. 0: jobs.wall_limit_s."},
    {"slurm.template", &S::slurm_template, "", 0, 0,
     "Template of the batch script (docs/slurm.md has its variables); empty: the shipped one."},
    {"slurm.poll_ms", &S::slurm_poll_ms, "ms", 50, 600'000,
     "Between two looks at Slurm's queue, one for all jobs together."},
    {"slurm.queue_limit", &S::slurm_queue_limit, "", 1, 100'000,
     "Jobs of this daemon at Slurm at once; more wait in the daemon."},
    {"slurm.resubmissions", &S::slurm_resubmissions, "", 0, 100,
     "How often in a row a job that gets no further begins again after its node failed or it was preempted; "
     "beginnings by Slurm itself count too."},
    {"slurm.away_s", &S::slurm_away_s, "s", 1, kYear_s,
     "How long Slurm's controller may be unreachable, or not take a job, before jobs that wait for it end "
     "with an "
     "error."},

    {"roots", &S::roots, "", 0, 0,
     "Folders below which captures, corpora and checkpoints may lie. Without any, no URI is allowed."},
    {"adapters", &S::adapters, "", 0, 0,
     "Programs that produce captures: a name and its argv. {out}, {corpus}, {engine_url}, {engine_key_file}, "
     "{engine_ca_file}, {model}, {kernel}, {checkpoint} and {train} are filled in."},

    {"engines.allowed_hosts", &S::engines_allowed_hosts, "", 0, 0,
     "Hosts that engines may be on, whatever address they resolve to."},
    {"engines.public_hosts", &S::engines_public_hosts, "", 0, 0,
     "Also allow every host with a public address."},
    {"engines.files_dir", &S::engines_files_dir, "", 0, 0,
     "Folder of the key files and CA files that registrations of engines name (docs/engines.md); empty: "
     "engine-files in data_dir."},

    {"evidence.origin", &S::evidence_origin, "", 0, 0,
     "Name of the log in its signed heads; never change it."},
    {"evidence.head_file", &S::evidence_head_file, "", 0, 0,
     "Where the newest signed head is published; better on another disk. Empty: head.note in data_dir."},
    {"evidence.key_file", &S::evidence_key_file, "", 0, 0,
     "Signing key (Ed25519, PEM, mode 0600), generated at the first start. Empty: log.key in data_dir."},
    {"evidence.backup_dir", &S::evidence_backup_dir, "", 0, 0,
     "Folder below which backups are made; better on another disk. Empty: backups in data_dir."},
    {"evidence.attestation_key_file", &S::evidence_attestation_key_file, "", 0, 0,
     "Key that signs attestations, another one than the log's, generated at the first start. "
     "Empty: attestation.key in data_dir."},

    {"schedule.blackouts", &S::schedule_blackouts, "", 0, 0,
     "Times in which no schedule starts a promotion and no share grows; abort and rollback always work. "
     "Each is 'MINUTE HOUR DAY MONTH WEEKDAY DURATION ZONE [MODEL]', such as '0 18 * * fri 62h "
     "Europe/Berlin'."},
    {"schedule.report", &S::schedule_report, "", 0, 0,
     "When webhooks are told what came of the schedules since the last such time (event schedule.report): a "
     "cron "
     "expression and a time zone, such as '0 7 * * * Europe/Berlin'; empty: never."},

    {"pipeline.max_rescored", &S::pipeline_max_rescored, "", 0, 100'000,
     "Most mirrored pairs that are rescored on both engines in one stage."},
    {"pipeline.pause_deadline_s", &S::pipeline_pause_deadline_s, "s", 1, kYear_s,
     "A promotion paused for longer expires."},
    {"pipeline.inconclusive_deadline_s", &S::pipeline_inconclusive_deadline_s, "s", 1, kYear_s,
     "An inconclusive promotion that nobody decides expires after this."},
    {"pipeline.sample_share_bp", &S::pipeline_sample_share_bp, "bp", 1, 10'000,
     "Share of the incumbent's requests that is mirrored while a contract's `sample` order stands."},
    {"pipeline.sample_token_budget", &S::pipeline_sample_token_budget, "", 1, 1'000'000'000'000,
     "Most tokens asked of the candidate by such mirroring in one stage."},

    {"webhooks.endpoints", &S::webhooks_endpoints, "", 0, 0,
     "Endpoints that are notified of events: a name, the URL, the file with its secret (whsec_…), and "
     "events such as promotion.rejected or promotion.*; without events, all. See docs/webhooks.md."},
    {"webhooks.allowed_hosts", &S::webhooks_allowed_hosts, "", 0, 0,
     "Hosts that webhooks may be on, whatever address they resolve to; needed for internal ones."},
    {"webhooks.public_hosts", &S::webhooks_public_hosts, "", 0, 0,
     "Also allow every host with a public address."},

    {"otlp.endpoint", &S::otlp_endpoint, "", 0, 0,
     "URL of an OpenTelemetry collector that gets traces of promotions by OTLP/HTTP with JSON, such as "
     "https://collector.example.org:4318; /v1/traces and /v1/logs are added. Empty: none are sent. See "
     "docs/monitoring.md."},
    {"otlp.key_file", &S::otlp_key_file, "", 0, 0,
     "File with the collector's key, readable by its owner alone; empty: it asks for none."},
    {"otlp.key_header", &S::otlp_key_header, "", 0, 0,
     "Header that is the key; empty: \"Authorization: Bearer KEY\"."},
    {"otlp.ca_file", &S::otlp_ca_file, "", 0, 0,
     "CAs (PEM) to trust for the collector under https; empty: the system's."},
};

}  // namespace

std::span<const SettingSpec> setting_specs() {
  return kSpecs;
}

}  // namespace driftgate::app
