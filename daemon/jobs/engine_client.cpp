#include "daemon/jobs/engine_client.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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

schema::Result<EngineClient> EngineClient::connect(const std::string& base_url, std::string model,
                                                   const net::OutgoingPolicy& policy) {
  auto client = TRY(engine_http(base_url, policy, true));
  return EngineClient(std::move(client), std::move(model));
}

schema::Result<ScoredText> EngineClient::score(std::string_view text) {
  return send(text);
}

schema::Result<ScoredText> EngineClient::score(const std::vector<std::int64_t>& ids) {
  auto scored = send(ids);
  if (scored && scored->tokens.size() != ids.size()) {
    return schema::fail(ErrorCode::invalid_document,
                        fmt::format("the engine {} scored {} tokens where {} were sent",
                                    client_.base().base(), scored->tokens.size(), ids.size()));
  }
  return scored;
}

schema::Result<ScoredText> EngineClient::send(const json& prompt) {
  const json body{{"model", model_}, {"prompt", prompt}, {"max_tokens", 0},
                  {"echo", true},    {"logprobs", 1},    {"temperature", 1}};
  const auto answer = TRY(client_.send(engine_post(client_, "/v1/completions", body)));
  if (answer.status != 200) {
    return schema::fail(ErrorCode::unavailable,
                        fmt::format("the engine {} answered {} to a request for scores",
                                    client_.base().base(), answer.status));
  }
  return parse_logprobs(answer.body);
}

}  // namespace driftgate::jobs
