#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/net/raw_peer.hpp"

namespace driftgate::jobs::testing {

/// An inference engine on a loopback port that answers as a completions server should, but for what `twist`
/// answers in its place. Keeps what it was asked.
class ScriptedEngine : public net::test::FunctionHandler {
 public:
  using Json = nlohmann::json;
  using Twist = std::function<std::optional<net::Response>(const net::Request&, const Json& body)>;

  /// With `tls` over https.
  explicit ScriptedEngine(Twist twist = {}, const net::TlsServerFiles& tls = {})
      : twist_(std::move(twist)), scheme_(tls.any() ? "https" : "http") {
    answer = [this](const net::Request& request) { return reply(request); };
    net::ServerOptions options;
    options.tls = tls;
    server_ = std::move(*net::Server::start(options, *this));
  }
  ~ScriptedEngine() override { server_->stop(std::chrono::seconds(1)); }

  [[nodiscard]] std::string url() const {
    return scheme_ + "://127.0.0.1:" + std::to_string(server_->port()) + prefix;
  }
  [[nodiscard]] std::vector<net::Request> asked() {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }

  double logprob = -0.5;  ///< of every token that is scored
  std::string
      prefix;  ///< path that everything is under; nothing is found elsewhere. Before the first request

  static net::Response of(int status, std::string body) {
    net::Response response;
    response.status = status;
    response.body = std::move(body);
    return response;
  }
  static net::Response of(const Json& body) { return of(200, body.dump()); }

  /// The text with one token a byte, the first of which has no log-probability.
  [[nodiscard]] Json scored(const std::string& text) const {
    Json tokens = Json::array(), values = Json::array(), offsets = Json::array();
    for (std::size_t i = 0; i < text.size(); ++i) {
      tokens.push_back(std::string(1, text[i]));
      values.push_back(i == 0 ? Json(nullptr) : Json(logprob));
      offsets.push_back(i);
    }
    return choice(text, {{"tokens", tokens}, {"token_logprobs", values}, {"text_offset", offsets}});
  }
  static Json choice(const Json& text, const Json& logprobs) {
    return {{"choices", Json::array({Json{{"text", text}, {"logprobs", logprobs}}})}};
  }

 private:
  [[nodiscard]] Json chat_choice(bool logprobs) const {
    Json choice{{"message", {{"role", "assistant"}, {"content", "a"}}}, {"logprobs", nullptr}};
    if (logprobs)
      choice["logprobs"] = {{"content", Json::array({Json{{"token", "a"}, {"logprob", logprob}}})}};
    return {{"choices", Json::array({choice})}};
  }

  net::Response reply(net::Request request) {
    if (!request.path.starts_with(prefix)) return of(404, "");
    request.path.erase(0, prefix.size());
    const Json body = Json::parse(request.body.empty() ? "{}" : request.body);
    {
      const std::scoped_lock lock(mutex_);
      asked_.push_back(request);
    }
    if (twist_) {
      if (auto other = twist_(request, body)) return *other;
    }
    if (request.path == "/health") return of(200, "");
    if (request.path == "/v1/models") return of(Json{{"data", Json::array({Json{{"id", "m"}}})}});
    if (body.value("stream", false))
      return of(200, "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n");
    if (request.path == "/v1/chat/completions") return of(chat_choice(body.value("logprobs", false)));
    if (request.path != "/v1/completions") return of(404, "");
    if (body["prompt"].is_array()) return of(scored(std::string(body["prompt"].size(), 'x')));
    if (body.value("echo", false)) return of(scored(body["prompt"].get<std::string>()));
    return of(choice("a", {{"tokens", {"a"}}, {"token_logprobs", {logprob}}}));
  }

  Twist twist_;
  std::string scheme_;
  std::mutex mutex_;
  std::vector<net::Request> asked_;
  std::unique_ptr<net::Server> server_;
};

}  // namespace driftgate::jobs::testing
