#include "fixture.hpp"

#include <doctest/doctest.h>

#include "daemon/net/request.hpp"

namespace driftgate::api::test {

net::Response Fixture::call(const std::string& method, const std::string& target, const std::string& scopes,
                            const std::string& body, const net::Headers& headers) {
  std::string text = method + " " + target + " HTTP/1.1\r\nHost: a\r\n";
  if (method == "DELETE" && target == "/v1/session" && !scopes.empty() && headers.empty())
    text += "Cookie: driftgate_session=" + scopes + "\r\nX-CSRF-Token: " + auth::csrf_token(scopes) + "\r\n";
  else if (!scopes.empty())
    text += "Authorization: Bearer dg_" + scopes + "\r\n";
  for (const net::Header& header : headers) text += header.name + ": " + header.value + "\r\n";
  const bool conditional =
      method != "GET" && (target.starts_with("/v1/schedules/") || target.ends_with("/recipe"));
  if (conditional && headers.empty()) text += "If-Match: \"3\"\r\n";
  auto head = net::parse_request_head(text + "\r\n");
  REQUIRE(head);
  net::Request request;
  static_cast<net::RequestHead&>(request) = std::move(*head);
  request.body = body;
  auto refusal = api.before_body(request);
  net::Response response = refusal ? std::move(*refusal) : api.handle(request);
  std::string allowed;
  const auto match = match_route(request.method, request.path, allowed);
  if (!response.feed && !response.deferred) {
    CAPTURE(target);
    CAPTURE(response.body);
    CHECK(nonconformity(match ? match->route : nullptr, response) == "");
  }
  return response;
}

std::string sample_path(const Route& route) {
  std::string path(route.path);
  const auto replace = [&path](const std::string& what, const std::string& with) {
    const std::size_t at = path.find(what);
    if (at != std::string::npos) path.replace(at, what.size(), with);
  };
  if (path.find("/promotions/") != std::string::npos) replace("{id}", "pr-1");
  if (path.find("/jobs/") != std::string::npos) replace("{id}", "job-1");
  if (path.find("/schedules/") != std::string::npos) replace("{name}", "nightly");
  if (path.find("/kernels/") != std::string::npos) replace("{name}", "k");
  if (path.find("/engines/") != std::string::npos) replace("{name}", "e");
  replace("{name}", "m");
  replace("{contract}", "c");
  replace("{stage}", "canary");
  replace("{seq}", "3");
  replace("{kind}", "state_changed.json");
  replace("{id}", "tok-1");
  if (route.id == "getConsistency") path += "?from=1&to=2";
  if (route.id == "auditAt") path += "?model=tiny&time_us=5";
  if (route.id == "auditPopulation") path += "?from_us=1&to_us=9";
  if (route.id == "exportEvidence") path += "?from_us=1&to_us=9";
  if (route.id == "auditSample") path += "?seed=dice";
  if (route.id == "diffContracts") path += "?with=c";
  return path;
}

std::string sample_body(const Route& route) {
  const std::string_view schema = route.request_schema;
  if (schema == "ContractDocument") return "kind: KernelContract\n";
  if (schema == "KernelRequest") return R"({"name":"k"})";
  if (schema == "EngineRequest")
    return std::string(R"({"name":"e","url":"http://127.0.0.1:1","kernel":"k","checkpoint":{"digest":")") +
           kDigest + "\"}}";
  if (schema == "ModelRequest") return R"({"name":"m","engine":"e","reason":"first"})";
  if (schema == "PromotionRequest") return R"({"model":"m","engine":"e","contract":"c"})";
  if (schema == "RecipeRequest") return R"({"contract":"c"})";
  if (schema == "ReasonRequest" || schema == "InterventionRequest") return R"({"reason":"because"})";
  if (schema == "ApprovalRequest")
    return std::string(R"({"evidence_digest":")") + kDigest + R"(","reason":"read it"})";
  if (schema == "WaiverRequest")
    return std::string(R"({"clause":"runtime.ttft","evidence_digest":")") + kDigest +
           R"(","reason":"read it"})";
  if (schema == "ScheduleRequest")
    return R"({"name":"nightly","cron":"0 2 * * *","promotion":{"model":"m","engine":"e","contract":"c"}})";
  if (schema == "TokenRequest") return R"({"name":"bob","scopes":["viewer"]})";
  return {};
}

std::string header_of(const net::Response& response, std::string_view name) {
  const auto value = net::find_header(response.headers, name);
  return value ? std::string(*value) : std::string();
}

}  // namespace driftgate::api::test
