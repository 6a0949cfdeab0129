#include "daemon/jobs/engine_client.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/jobs/engine_http.hpp"
#include "schema/json.hpp"

namespace driftgate::jobs {

using nlohmann::json;
using schema::ErrorCode;

schema::Result<net::HttpClient> engine_http(const std::string& base_url, const net::OutgoingPolicy& policy,
                                            bool keep_alive) {
  auto url = TRY(net::parse_url(base_url));
  TRY(net::check_outgoing(url, policy));
  net::ClientOptions options;
  options.total_timeout = kEngineTimeout;
  options.keep_alive = keep_alive;
  return net::HttpClient(url, net::with_policy(options, url, policy));
}

net::ClientRequest engine_get(const net::HttpClient& client, std::string_view path) {
  net::ClientRequest request;
  request.target = net::join_target(client.base().target, path);
  return request;
}

net::ClientRequest engine_post(const net::HttpClient& client, std::string_view path, const json& body) {
  auto request = engine_get(client, path);
  request.method = "POST";
  request.headers.push_back({"Content-Type", "application/json"});
  request.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  return request;
}

EngineClient::EngineClient(net::HttpClient client, std::string model)
    : client_(std::make_unique<net::HttpClient>(std::move(client))), model_(std::move(model)) {}
EngineClient::~EngineClient() = default;
EngineClient::EngineClient(EngineClient&&) noexcept = default;
EngineClient& EngineClient::operator=(EngineClient&&) noexcept = default;

schema::Result<EngineClient> EngineClient::connect(const std::string& base_url, std::string model,
                                                   const net::OutgoingPolicy& policy) {
  auto client = TRY(engine_http(base_url, policy, true));
  return EngineClient(std::move(client), std::move(model));
}

net::ClientRequest EngineClient::request_for(const json& prompt) const {
  const json body{{"model", model_}, {"prompt", prompt}, {"max_tokens", 0},
                  {"echo", true},    {"logprobs", 1},    {"temperature", 1}};
  return engine_post(*client_, "/v1/completions", body);
}

schema::Result<ScoredText> EngineClient::score(std::string_view text) {
  return send(request_for(json(text)));
}

schema::Result<ScoredText> EngineClient::score(const std::vector<std::int64_t>& ids) {
  auto scored = send(request_for(json(ids)));
  if (scored && scored->tokens.size() != ids.size()) {
    return schema::fail(ErrorCode::invalid_document,
                        fmt::format("the engine {} scored {} tokens where {} were sent",
                                    client_->base().base(), scored->tokens.size(), ids.size()));
  }
  return scored;
}

schema::Result<ScoredText> EngineClient::send(const net::ClientRequest& request) {
  auto answer = TRY(client_->send(request));
  if (answer.status != 200) {
    return schema::fail(ErrorCode::unavailable,
                        fmt::format("the engine {} answered {} to a request for scores",
                                    client_->base().base(), answer.status));
  }
  return parse_logprobs(answer.body);
}

}  // namespace driftgate::jobs
