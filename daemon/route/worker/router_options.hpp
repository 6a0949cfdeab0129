#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::route {

/// How `driftgate router` runs. Times in milliseconds, sizes in bytes.
struct RouterOptions {
  std::string listen = "127.0.0.1:0";  ///< host:port for users' traffic; port 0 picks a free one
  std::string port_file;               ///< gets the port as text, written atomically; empty: none
  std::string control_path;            ///< Unix socket, mode 0600; required
  std::string spool_dir;               ///< folder for mirrored pairs; required
  std::string state_path;              ///< last applied routes; required
  std::uint64_t spool_cap_bytes = 256u << 20;
  std::uint32_t lease_ms = 30'000;              ///< without heartbeat for so long the candidate's share is 0
  std::uint32_t window_ms = 5'000;              ///< telemetry windows close this often
  std::uint32_t request_deadline_ms =
      120'000;  ///< from routing to the last byte of an engine's answer; of an
                ///< answer that is passed on as it comes, to its first byte
  std::uint32_t connect_ms = 2'000;             ///< connecting to an engine
  std::uint32_t first_byte_ms = 0;              ///< to the first byte of a streamed answer; 0: learned
  std::uint32_t first_byte_floor_ms = 500;      ///< added to what is learned of an engine's first byte
  std::uint32_t between_ms = 10'000;            ///< between two parts of an answer that is passed on
  std::uint32_t breaker_failures = 3;           ///< in a row that open an engine's breaker; 0: it never opens
  std::uint32_t probe_ms = 2'000;               ///< between two active probes of an engine; 0: none
  std::uint32_t probe_timeout_ms = 1'000;  ///< for its answer; a third of it while the engine is in trouble
  std::uint32_t header_ms = 10'000;             ///< first byte to the end of a request's head
  std::uint32_t body_ms = 30'000;               ///< reading a request's body
  std::uint32_t idle_ms = 60'000;               ///< between two requests of a connection
  std::uint32_t write_stall_ms = 30'000;        ///< one write to a client that does not read
  std::uint32_t drain_ms = 10'000;              ///< requests in flight may take so long after SIGTERM
  std::uint32_t retire_ms = 600'000;            ///< the same for a router that another one follows
  std::uint64_t max_body_bytes = 1u << 20;      ///< of a request
  std::uint64_t body_memory_bytes = 256u << 20;  ///< of all requests' bodies that are not complete together
  std::uint32_t max_connections = 4'096;  ///< from clients, over all threads; fewer where the limit of open
                                          ///< files has no two descriptors for each
  std::uint32_t max_connections_per_address = 1'024;  ///< an IPv6 /64 counts as one address
  std::uint32_t mirror_concurrency = 8;         ///< copies in flight, for each thread
  std::uint32_t mirror_queue = 256;             ///< copies waiting, for each thread
  std::uint32_t threads = 1;                    ///< 1 to 16, each with its own event loop
  /// Listening sockets that the process inherits from kFirstListener on, a thread for each; with 0 it binds
  /// `listen` itself.
  std::uint32_t listen_fds = 0;
  std::string further_paths;   ///< that engines are asked for, joined by commas (parse_further_paths)
  std::string haproxy_dir;     ///< folder of HAProxy's files; empty: this router serves users itself
  std::string haproxy_socket;  ///< HAProxy's runtime socket
  std::string haproxy_log;     ///< where HAProxy sends its log: "host:port" (UDP) or a path (Unix datagram)
  std::string haproxy_bind;    ///< what stands behind `bind` in HAProxy's frontend
  std::uint32_t haproxy_models = 8;                ///< backends, one for each model
  std::uint32_t haproxy_buffer_bytes = 128 << 10;  ///< tune.bufsize: what HAProxy can read of a body
  std::string gateway_api;         ///< URL of the Kubernetes API; empty: there is no Gateway in front
  std::string gateway_ca_file;     ///< CA of that URL; empty: the system's list
  std::string gateway_token_file;  ///< token of the service account, read for each exchange
  std::string gateway_namespace;   ///< where the HTTPRoutes are
  std::string gateway_name;        ///< of this installation; HTTPRoutes bear it
  std::string
      gateway_parents;  ///< Gateways, with commas: "NAME", "NAMESPACE/NAME", "NAMESPACE/NAME/LISTENER"
  std::string gateway_hostnames;  ///< of users' requests, with commas; empty: all
  std::string gateway_router;  ///< the Service in front of this router: "NAME:PORT" or "NAME.NAMESPACE:PORT"
  std::uint32_t gateway_watched_bp =
      10'000;  ///< requests for a model without a candidate that pass this router
};

/// The first descriptor behind the standard ones.
inline constexpr int kFirstListener = 3;

/// The file beside the state with what engines ask for (table/access_file.hpp).
[[nodiscard]] std::string access_path(const RouterOptions& options);

/// The words behind `driftgate router` that give these options back.
[[nodiscard]] std::vector<std::string> to_arguments(const RouterOptions& options);

/// Reads `--name value` pairs, names as in RouterOptions with dashes (`--lease-ms 30000`).
[[nodiscard]] schema::Result<RouterOptions> parse_router_arguments(std::span<const std::string> words);

}  // namespace driftgate::route
