#include "daemon/route/haproxy/config_text.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "daemon/route/haproxy/log_line.hpp"
#include "daemon/route/haproxy/slots.hpp"

namespace driftgate::route::haproxy {
namespace {

/// What parse_slice_header accepts, but for dimensions that are named twice.
constexpr std::string_view kSlicePattern =
    R"(^[ \t;]*(?:[a-z][a-z0-9_]{0,31}[ \t]*=[ \t]*[!#-+\x2d-:<>-\x5b\x5d-~])"
    R"((?:[ !#-+\x2d-:<>-\x5b\x5d-~]{0,62}[!#-+\x2d-:<>-\x5b\x5d-~])?[ \t]*(?:;[ \t;]*|$)){0,8}$)";

constexpr std::string_view kHead =
    R"(# Written by driftgate for HAProxy 2.6; changes are lost. Add settings of your own in another file
# (haproxy -f yours.cfg -f this.cfg). docs/data_planes.md explains it.
global
  stats socket @SOCKET@ uid @USER@ mode 600 level admin
  stats timeout 60s
  tune.bufsize @BUFFER@
  # Tells this process from others in its log.
  set-var proc.driftgate_boot date(0,us)

defaults driftgate
  mode http
  timeout connect @CONNECT@ms
  timeout client @CLIENT@ms
  timeout server @DEADLINE@ms
  timeout queue @DEADLINE@ms
  timeout check 1s
  timeout http-request @HEADER@ms
  timeout http-keep-alive @IDLE@ms
  option dontlognull
  option abortonclose
  option http-restrict-req-hdr-names delete

frontend driftgate from driftgate
  bind @BIND@
  log @LOG@ len @LINE@ format raw local0
  log-format "@NAME@ @SECRET@ %[var(proc.driftgate_boot)] %[var(txn.dg_backend)] %[var(txn.dg_order)] %[var(txn.dg_tag)] %[var(txn.dg_arm)] %[var(txn.dg_keyless)] %[var(txn.dg_pinned)] %[var(txn.dg_bp)] %[var(txn.dg_hash)] %[var(txn.dg_start)] %[date(0,us)] %ST %ts %rc %s |%[var(txn.dg_slice)]"

  acl dg_path path /v1/completions /v1/chat/completions
  acl dg_post method POST
  acl dg_chunked req.hdr_cnt(transfer-encoding) gt 0
  acl dg_whole var(txn.dg_missing) -m int 0
  acl dg_model_known var(txn.dg_model) -m len gt 0
  acl dg_key_known var(txn.dg_key) -m len gt 0
  acl dg_user req.body -m sub '"user"'
  acl dg_metadata req.body -m sub '"metadata"'
  acl dg_slice_given req.hdr_cnt(driftgate-slice) gt 0
  acl dg_slice_short var(txn.dg_slice) -m len le 512
  acl dg_slice_fine var(txn.dg_slice) -m reg '@SLICE@'
  acl dg_slice_empty var(txn.dg_slice) -m len 0
  acl dg_readable var(txn.dg_readable) -m int 1
  acl dg_placed var(txn.dg_route) -m found
  acl dg_lease nbsrv(driftgate_lease) gt 0
  acl dg_router nbsrv(driftgate_router) gt 0
  acl dg_below var(txn.dg_above) -m int lt 0
  acl dg_mirrored var(txn.dg_mirror_above) -m int lt 0
  acl dg_slice_share var(txn.dg_rule) -m beg b
  acl dg_slice_fallback var(txn.dg_rule) -m str f
  acl dg_pins var(txn.dg_flags) -m sub P
  acl dg_pin_incumbent var(txn.dg_pin) -m str incumbent
  acl dg_pin_candidate var(txn.dg_pin) -m str candidate
  acl dg_all_fallback var(txn.dg_flags) -m sub F
  acl dg_arm_incumbent var(txn.dg_arm) -m str i
  acl dg_arm_candidate var(txn.dg_arm) -m str c
  acl dg_arm_fallback var(txn.dg_arm) -m str f
  acl dg_arm_mirrored var(txn.dg_arm) -m str m

  # A request that has been here before.
  http-request return status 508 content-type application/json string '{"error":{"message":"this request has already passed through this proxy: one of its engine URLs leads back to it","type":"server_error","param":null,"code":"loop"}}' if { req.fhdr(via) -m sub @MARK@ }
  http-request add-header Via "1.1 @MARK@"
  http-request del-header driftgate-plane
  http-request del-header driftgate-order

  # What a request says: by its headers, or by a body that was read as a whole. The router reads what is not clear
  # here: larger bodies without headers, slices in `metadata`, and everything that is not a completion.
  http-request wait-for-body time @BODY@ms if dg_post dg_path
  http-request set-var(txn.dg_length) req.body_len if dg_post dg_path !dg_chunked
  http-request set-var(txn.dg_missing) req.body_size,sub(txn.dg_length) if dg_post dg_path !dg_chunked
  http-request set-var(txn.dg_model) req.fhdr(driftgate-model,1) if dg_post dg_path
  http-request set-var(txn.dg_model) req.body,json_query('$.model') if dg_post dg_path !dg_model_known
  http-request set-var(txn.dg_key) req.fhdr(driftgate-key,1) if dg_post dg_path
  http-request set-var(txn.dg_key) req.body,json_query('$.user') if dg_post dg_path dg_whole !dg_key_known
  http-request set-var(txn.dg_slice) req.fhdr(driftgate-slice,1) if dg_post dg_path
  http-request set-var(txn.dg_readable) int(1) if dg_post dg_path dg_model_known
  http-request set-var(txn.dg_readable) int(0) unless dg_key_known || dg_whole !dg_user
  http-request set-var(txn.dg_readable) int(0) unless dg_slice_given dg_slice_empty || dg_slice_given dg_slice_short dg_slice_fine || dg_whole !dg_slice_given !dg_metadata

  # The route: TAG|BACKEND|INCUMBENT|CANDIDATE|FALLBACK|SHARE|SEED|MIRROR|FLAGS, looked up once.
  http-request set-var(txn.dg_route) var(txn.dg_model),map(@ROUTES@) if dg_readable
  http-request set-log-level silent unless dg_placed
  http-request set-var(txn.dg_tag) var(txn.dg_route),field(1,|) if dg_placed
  http-request set-var(txn.dg_backend) var(txn.dg_route),field(2,|) if dg_placed
  http-request set-var(txn.dg_bp) var(txn.dg_route),field(6,|) if dg_placed
  http-request set-var(txn.dg_seed) var(txn.dg_route),field(7,|) if dg_placed
  http-request set-var(txn.dg_mirror_bp) var(txn.dg_route),field(8,|) if dg_placed
  http-request set-var(txn.dg_flags) var(txn.dg_route),field(9,|) if dg_placed
  http-request set-var(txn.dg_keyless) int(0) if dg_placed
  http-request set-var(txn.dg_keyless) int(1) if dg_placed !dg_key_known
  http-request set-var(txn.dg_key) uuid if dg_placed !dg_key_known
  http-request set-var(txn.dg_bucket) var(txn.dg_seed),concat(:,txn.dg_key),xxh32,mod(10000) if dg_placed
  http-request set-var(txn.dg_mirror_bucket) var(txn.dg_seed),concat(:m:,txn.dg_key),xxh32,mod(10000) if dg_placed
  http-request set-var(txn.dg_hash) var(txn.dg_seed),concat(:k:,txn.dg_key),xxh64 if dg_placed

  # Pins, the first slice that matches, the share; no candidate without the lease.
  http-request set-var(txn.dg_rule) var(txn.dg_tag),concat(|,txn.dg_backend,|),concat(,txn.dg_slice),map_reg(@SLICES@) if dg_placed
  http-request set-var(txn.dg_bp) var(txn.dg_rule),bytes(1) if dg_placed dg_slice_share
  http-request set-var(txn.dg_key_hex) var(txn.dg_key),hex if dg_placed dg_pins
  http-request set-var(txn.dg_pin) var(txn.dg_tag),concat(|,txn.dg_backend,|),concat(,txn.dg_key_hex),map(@ROUTES@) if dg_placed dg_pins
  http-request set-var(txn.dg_pinned) int(0) if dg_placed
  http-request set-var(txn.dg_pinned) int(1) if dg_pin_incumbent || dg_pin_candidate
  http-request set-var(txn.dg_bp) var(txn.dg_route),field(6,|) if dg_pin_incumbent || dg_pin_candidate
  http-request set-var(txn.dg_bp) int(0) if dg_placed !dg_lease
  http-request set-var(txn.dg_above) var(txn.dg_bucket),sub(txn.dg_bp) if dg_placed
  http-request set-var(txn.dg_mirror_above) var(txn.dg_mirror_bucket),sub(txn.dg_mirror_bp) if dg_placed
  http-request set-var(txn.dg_arm) str(i) if dg_placed
  http-request set-var(txn.dg_arm) str(c) if dg_placed dg_below
  http-request set-var(txn.dg_arm) str(f) if dg_placed dg_slice_fallback
  http-request set-var(txn.dg_arm) str(i) if dg_pin_incumbent || dg_pin_candidate
  http-request set-var(txn.dg_arm) str(c) if dg_pin_candidate dg_lease
  http-request set-var(txn.dg_arm) str(m) if dg_placed dg_arm_incumbent dg_mirrored dg_lease dg_router !dg_pin_incumbent !dg_pin_candidate
  http-request set-var(txn.dg_arm) str(f) if dg_placed dg_all_fallback
  http-request set-var(txn.dg_pinned) int(0) if dg_placed dg_all_fallback
  http-request set-var(txn.dg_bp) int(0) if dg_arm_fallback
  http-request set-var(txn.dg_server) var(txn.dg_route),field(3,|) if dg_arm_incumbent
  http-request set-var(txn.dg_server) var(txn.dg_route),field(4,|) if dg_arm_candidate
  http-request set-var(txn.dg_server) var(txn.dg_route),field(5,|) if dg_arm_fallback
  http-request set-var(txn.dg_server) str(router) if dg_arm_mirrored

  # Requests of a backend are numbered without a gap, so that those in flight are known.
  http-request track-sc0 var(txn.dg_backend) table driftgate_orders if dg_placed
  http-request set-var(txn.dg_order) sc_inc_gpc0(0) if dg_placed
  http-request set-var(txn.dg_start) date(0,us) if dg_placed
  use_backend %[var(txn.dg_backend)] if dg_placed
  default_backend driftgate_router

backend driftgate_orders from driftgate
  stick-table type string len 64 size 1k store gpc0 nopurge

# Up while the router holds the lease: without it no candidate is exposed.
backend driftgate_lease from driftgate
  option httpchk
  http-check send meth GET uri /driftgate/lease ver HTTP/1.1 hdr Host driftgate
  http-check expect status 200
  server lease @ROUTER@ check inter 1s fall 2 rise 1

backend driftgate_router from driftgate
  option httpchk
  http-check send meth GET uri /health ver HTTP/1.1 hdr Host driftgate
  http-check expect status 200
  server router @ROUTER@ check inter 1s fall 1 rise 1
)";

/// A request names its server. What the named one fails before its first byte is tried once more, on the only
/// server with a weight: the incumbent.
constexpr std::string_view kBackend = R"(
backend @BACKEND@ from driftgate
  balance roundrobin
  retries 1
  option redispatch 1
  retry-on conn-failure empty-response junk-response response-timeout 500 502 503 504
  acl dg_arm_mirrored var(txn.dg_arm) -m str m
  http-request set-header driftgate-plane @SECRET@ if dg_arm_mirrored
  http-request set-header driftgate-order %[var(txn.dg_start)] if dg_arm_mirrored
  http-request set-header driftgate-key %[var(txn.dg_key)] if dg_arm_mirrored
  http-request del-header driftgate- -m beg unless dg_arm_mirrored
  use-server %[var(txn.dg_server)] if TRUE
  server router @ROUTER@ weight 0 track driftgate_router/router
)";

using Values = std::initializer_list<std::pair<std::string_view, std::string>>;

/// The template with "@NAME@" replaced by values.
std::string filled(std::string_view text, const Values& values) {
  std::string out(text);
  for (const auto& [name, value] : values) {
    for (auto at = out.find(name); at != std::string::npos; at = out.find(name, at + value.size()))
      out.replace(at, name.size(), value);
  }
  return out;
}

std::string head_text(const ConfigFacts& facts) {
  const auto& options = facts.options;
  return filled(kHead, {{"@SOCKET@", options.haproxy_socket},
                        {"@USER@", std::to_string(facts.user)},
                        {"@BUFFER@", std::to_string(options.haproxy_buffer_bytes)},
                        {"@CONNECT@", std::to_string(options.connect_ms)},
                        {"@CLIENT@", std::to_string(std::max(options.idle_ms, options.body_ms))},
                        {"@DEADLINE@", std::to_string(options.request_deadline_ms)},
                        {"@HEADER@", std::to_string(options.header_ms)},
                        {"@IDLE@", std::to_string(options.idle_ms)},
                        {"@BODY@", std::to_string(options.body_ms)},
                        {"@BIND@", options.haproxy_bind},
                        {"@LOG@", options.haproxy_log},
                        {"@LINE@", std::to_string(kMaxLogLineBytes)},
                        {"@NAME@", std::string(kLogLineName)},
                        {"@SLICE@", std::string(kSlicePattern)},
                        {"@MARK@", haproxy_mark(facts.secret)},
                        {"@ROUTES@", facts.files.routes()},
                        {"@SLICES@", facts.files.slices()},
                        {"@SECRET@", facts.secret},
                        {"@ROUTER@", facts.router}});
}

}  // namespace

std::string haproxy_mark(const std::string& secret) {
  return fmt::format("driftgate-haproxy-{:016x}", XXH64(secret.data(), secret.size(), 0));
}

std::string config_text(const ConfigFacts& facts) {
  auto text = head_text(facts);
  for (std::size_t number = 1; number <= facts.backends; ++number) {
    const auto backend = backend_name(number);
    text +=
        filled(kBackend, {{"@BACKEND@", backend}, {"@SECRET@", facts.secret}, {"@ROUTER@", facts.router}});
    const auto servers = facts.servers.find(backend);
    if (servers == facts.servers.end()) continue;
    for (const auto& server : servers->second) text += fmt::format("  server {}\n", server_text(server));
  }
  return text;
}

}  // namespace driftgate::route::haproxy
