#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/api/ports.hpp"
#include "daemon/auth/principal.hpp"
#include "daemon/evidence/backup.hpp"
#include "daemon/net/request.hpp"
#include "daemon/net/response.hpp"
#include "daemon/notify/desk.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"
#include "daemon/pipeline/service.hpp"
#include "schema/error.hpp"

namespace driftgate::api {

/// One line of /readyz.
struct ReadyCheck {
  std::string name;
  bool ok = false;
  std::string detail;
};

/// One answered request, for the log.
struct AccessRecord {
  std::string method, path, principal, remote_address;
  int status = 0;
  std::chrono::microseconds took{0};
};

/// What handlers work with. Everything outlives the API.
struct Context {
  pipeline::Service& service;
  TokenPort& tokens;
  EvidencePort& evidence;
  IdempotencyPort& idempotency;
  std::function<std::int64_t()> now_us;
  std::function<std::vector<ReadyCheck>()> ready;
  std::function<std::string()> more_metrics;  ///< Prometheus text beside the pipeline's figures
  std::function<void(const AccessRecord&)> log;
  double requests_per_second = 500;  ///< of one principal, on average
  double burst = 1000;
  notify::Desk* webhooks = nullptr;  ///< never null when requests are answered
  /// Makes a backup of this name; it may take minutes. Empty: none can be made.
  std::function<schema::Result<evidence::Backup>(const std::string& name)> backup{};
  pipeline::ScheduleAdmin* schedules = nullptr;  ///< never null when requests are answered
  /// Destroys what a promotion keeps of single requests; see daemon/pipeline/people/redact.hpp.
  std::function<schema::Result<void>(const std::string& actor, const std::string& promotion,
                                     const std::string& reason)>
      redact{};
};

/// One request that was matched, authenticated and allowed.
struct Call {
  const net::Request& request;
  const auth::Principal& principal;
  const std::vector<std::string>& path;  ///< decoded values of {…} in the route, in order

  /// The value of a query parameter, or "".
  [[nodiscard]] std::string query(std::string_view name) const;
};

using HandlerFunction = net::Response (*)(Context&, const Call&);

/// A response with a JSON body.
[[nodiscard]] net::Response json_response(int status, std::string body);
[[nodiscard]] net::Response text_response(std::string body,
                                          std::string_view media_type = "text/plain; charset=utf-8");

/// 201 with Location when the view was created, else 200.
[[nodiscard]] net::Response created_response(const schema::Result<pipeline::View>& view,
                                             std::string_view collection);
[[nodiscard]] net::Response view_response(const schema::Result<pipeline::View>& view);

/// `after` and `limit` of the query. `invalid_argument` for a limit out of range.
[[nodiscard]] schema::Result<pipeline::PageRequest> page_request(const Call& call);
/// {"items": […], "next": … | null} and `Link: rel="next"`.
[[nodiscard]] net::Response page_response(const Call& call, const schema::Result<pipeline::Page>& page);
/// `<path?query&after=cursor>; rel="next"`.
[[nodiscard]] net::Header next_link(const Call& call, std::string_view cursor);

/// A decimal number from a query parameter or path segment; nothing when absent, `invalid_argument`
/// otherwise.
[[nodiscard]] schema::Result<std::optional<std::uint64_t>> number_of(std::string_view text,
                                                                     std::string_view name);

/// The seconds of `Prefer: wait=N`, at most kMaxWait; 0 without.
inline constexpr std::chrono::seconds kMaxWait{60};
[[nodiscard]] std::chrono::seconds preferred_wait(const net::RequestHead& head);

}  // namespace driftgate::api
