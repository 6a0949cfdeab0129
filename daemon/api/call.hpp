#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/api/ports.hpp"
#include "daemon/api/streams/event_board.hpp"
#include "daemon/auth/principal.hpp"
#include "daemon/evidence/backup.hpp"
#include "daemon/net/request.hpp"
#include "daemon/net/response.hpp"
#include "daemon/notify/desk.hpp"
#include "daemon/pipeline/read/insight.hpp"
#include "daemon/pipeline/requests/recipe_admin.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"
#include "daemon/pipeline/service.hpp"
#include "daemon/web/site.hpp"
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
  double requests_per_second = 500;  ///< of one token, on average
  double burst = 1000;
  notify::Desk* webhooks = nullptr;  ///< never null when requests are answered
  /// Makes a backup of this name; it may take minutes. Empty: none can be made.
  std::function<schema::Result<evidence::Backup>(const std::string& name)> backup{};
  pipeline::ScheduleAdmin* schedules = nullptr;  ///< never null when requests are answered
  pipeline::RecipeAdmin* recipes = nullptr;      ///< never null when requests are answered
  /// Destroys what a promotion keeps of single requests; see daemon/pipeline/people/redact.hpp.
  std::function<schema::Result<void>(const std::string& actor, const std::string& promotion,
                                     const std::string& reason)>
      redact{};
  std::function<std::uint64_t()> commits{};  ///< transactions committed so far; empty: not known
  ServerFacts server{};
  /// The settings in force, as the JSON that GET /v1/settings answers. Empty: nobody knows them.
  std::function<std::string()> settings{};
  const web::Site* site = nullptr;  ///< the page; null: there is none
  pipeline::Insight* insight = nullptr;  ///< never null when requests are answered
  std::shared_ptr<EventBoard> events{};  ///< made by the API
};

/// One request that was matched, authenticated and allowed.
struct Call {
  const net::Request& request;
  const auth::Principal& principal;
  const std::vector<std::string>& path;  ///< decoded values of {…} in the route, in order

  /// The value of a query parameter, or "".
  [[nodiscard]] std::string query(std::string_view name) const;
};

/// What a handler answers; an error becomes the problem of its code.
using Reply = schema::Result<net::Response>;
using HandlerFunction = Reply (*)(Context&, const Call&);

/// A response with a JSON body.
[[nodiscard]] net::Response json_response(int status, std::string body);
/// A response of 204, which has no body.
[[nodiscard]] net::Response no_content();
[[nodiscard]] net::Response text_response(std::string body,
                                          std::string_view media_type = "text/plain; charset=utf-8");

/// 201 with Location when the view was created, else 200.
[[nodiscard]] net::Response created_response(const pipeline::View& view, std::string_view collection);
[[nodiscard]] Reply view_response(const schema::Result<pipeline::View>& view);

/// `after` and `limit` of the query. `invalid_argument` for a limit out of range.
[[nodiscard]] schema::Result<pipeline::PageRequest> page_request(const Call& call);
/// {"items": […], "next": … | null} and `Link: rel="next"`.
[[nodiscard]] Reply page_response(const Call& call, const schema::Result<pipeline::Page>& page);
/// The same of a JSON array of items; `more_members` follow behind `next`, each with a comma before it.
[[nodiscard]] net::Response items_response(const Call& call, std::string_view items, std::string_view next,
                                           std::string_view more_members = {});
/// A whole number of the query; nothing when it is absent, `invalid_argument` for anything else or above 2^53
/// - 1.
[[nodiscard]] schema::Result<std::optional<std::int64_t>> number_of(const Call& call, std::string_view name);
/// The same of a text that `name` stands for in messages; nothing when it is empty.
[[nodiscard]] schema::Result<std::optional<std::int64_t>> number_of(std::string_view text,
                                                                    std::string_view name);

/// True or false of the query; false when it is absent, `invalid_argument` for anything else.
[[nodiscard]] schema::Result<bool> flag_of(const Call& call, std::string_view name);

/// The seconds of `Prefer: wait=N`, at most kMaxWait; 0 without.
inline constexpr std::chrono::seconds kMaxWait{60};
[[nodiscard]] std::chrono::seconds preferred_wait(const net::RequestHead& head);

}  // namespace driftgate::api
