#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "daemon/base/json_members.hpp"
#include "daemon/jobs/engine_client.hpp"
#include "schema/json.hpp"
#include "schema/utf8.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr std::string_view kProbeText = "The answer is";
constexpr std::size_t kMaxModels = 100;
constexpr std::size_t kMaxModelNameBytes = 256;
constexpr int kLoopDetected = 508;

/// The requests of a probe, each on its own so that one missing ability hides no other.
class Probe {
 public:
  Probe(net::HttpClient client, std::string model, const std::string& router_mark)
      : client_(std::move(client)), model_(std::move(model)) {
    if (!router_mark.empty()) via_.push_back({"Via", "1.1 " + router_mark});
  }

  schema::Result<EngineAbilities> run() {
    const auto health = client_.send(marked(engine_get(client_, "/health")));
    if (!health)
      return schema::wrap(health.error(), fmt::format("the engine at {} cannot be reached", name()));
    if (health->status == kLoopDetected) return leads_back();
    found_.health = health->status / 100 == 2;
    if (!found_.health) note("GET /health answered {}", health->status);
    TRY(models());
    completions();
    if (came_back_) return leads_back();
    if (!found_.completions) {
      return schema::fail(ErrorCode::unavailable,
                          fmt::format("the engine at {} is not an OpenAI-compatible engine: {}", name(),
                                      found_.notes.back()));
    }
    logprobs();
    rescoring();
    stream();
    token_ids();
    return std::move(found_);
  }

 private:
  [[nodiscard]] std::string name() const { return client_.base().base(); }

  /// The request as this daemon's router would pass it on, which the router knows again.
  [[nodiscard]] net::ClientRequest marked(net::ClientRequest request) const {
    request.headers.insert(request.headers.end(), via_.begin(), via_.end());
    return request;
  }

  [[nodiscard]] std::unexpected<schema::Error> leads_back() const {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("what answers at {} is this daemon's own router, or passes requests on to it: "
                                    "they would go in a circle; register the engine that stands behind it",
                                    name()),
                        "/url");
  }

  template <typename... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    found_.notes.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  schema::Result<void> models() {
    auto answer = TRY(client_.send(marked(engine_get(client_, "/v1/models"))));
    if (answer.status == kLoopDetected) return leads_back();
    auto parsed = schema::parse_json(answer.body, {}, "the answer to GET /v1/models");
    const json* listed = parsed ? base::member(*parsed, "data") : nullptr;
    if (answer.status != 200 || listed == nullptr || !listed->is_array()) {
      return schema::fail(
          ErrorCode::unavailable,
          fmt::format("GET /v1/models of the engine at {} answered {} without a list of models; is it an "
                      "OpenAI-compatible engine?",
                      name(), answer.status));
    }
    for (const auto& item : *listed) {
      const auto id = base::maybe_text_at(item, "id");
      if (!id || found_.models.size() >= kMaxModels || id->size() > kMaxModelNameBytes) continue;
      found_.models.push_back(*id);
      if (!model_.empty() && *id != model_) continue;
      if (found_.stated_checkpoint.empty()) found_.stated_checkpoint = stated(item, "checkpoint_digest");
      if (found_.stated_kernel.empty()) found_.stated_kernel = stated(item, "kernel");
    }
    if (model_.empty() && !found_.models.empty()) model_ = found_.models.front();
    return {};
  }

  static std::string stated(const json& item, const char* key) {
    return schema::utf8_text(base::text_at(item, key), kMaxModelNameBytes);
  }

  schema::Result<net::ClientResponse> ask(json body) {
    body["model"] = model_;
    body["temperature"] = 0;
    return client_.send(marked(engine_post(client_, "/v1/completions", body)));
  }

  void completions() {
    const auto answer = ask({{"prompt", kProbeText}, {"max_tokens", 1}});
    if (!answer) return note("POST /v1/completions: {}", answer.error().describe());
    came_back_ = answer->status == kLoopDetected;
    if (answer->status != 200) return note("POST /v1/completions answered {}", answer->status);
    const auto parsed = schema::parse_json(answer->body, {}, "the completion");
    const json* choice = parsed ? first_choice(*parsed) : nullptr;
    found_.completions = choice != nullptr && choice->contains("text");
    if (!found_.completions) note("the answer of POST /v1/completions has no choices with text");
  }

  void logprobs() {
    const auto answer = ask({{"prompt", kProbeText}, {"max_tokens", 1}, {"logprobs", 1}});
    if (!answer || answer->status != 200) return note("a completion with logprobs was refused");
    const auto scored = parse_logprobs(answer->body);
    if (!scored) return note("no log-probabilities: {}", scored.error().message);
    found_.logprobs = !scored->logprobs.empty() && std::isfinite(scored->logprobs.front());
    if (!found_.logprobs) note("the log-probability of a generated token is unknown");
  }

  void rescoring() {
    const auto answer = ask({{"prompt", kProbeText}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}});
    if (!answer || answer->status != 200)
      return note("echo with max_tokens 0 was refused: texts cannot be rescored");
    const auto scored = parse_logprobs(answer->body);
    if (!scored) return note("texts cannot be rescored: {}", scored.error().message);
    const auto parsed = json::parse(answer->body);
    const json& choice = parsed["choices"][0];
    if (!choice.contains("text") || choice["text"] != kProbeText)
      return note("texts cannot be rescored: the echoed text is not the prompt that was sent");
    const auto known = std::ranges::count_if(scored->logprobs, [](double x) { return std::isfinite(x); });
    found_.echo_rescoring =
        scored->tokens.size() >= 2 && static_cast<std::size_t>(known) + 1 >= scored->tokens.size();
    if (!found_.echo_rescoring) note("texts cannot be rescored: echoed tokens have no log-probabilities");
  }

  void stream() {
    const json body{{"model", model_}, {"prompt", kProbeText}, {"max_tokens", 2}, {"stream", true}};
    std::string seen;
    const auto answer =
        client_.stream(marked(engine_post(client_, "/v1/completions", body)), [&](std::string_view bytes) {
          seen.append(bytes);
          return true;
        });
    found_.stream = answer && answer->status == 200 && seen.find("data:") != std::string::npos &&
                    seen.find("[DONE]") != std::string::npos;
    if (!found_.stream) note("a stream did not end with [DONE]");
  }

  void token_ids() {
    const auto answer = ask({{"prompt", json::array({1, 2, 3})}, {"max_tokens", 1}});
    found_.token_ids = answer && answer->status == 200;
    if (!found_.token_ids) note("prompts given as token ids were refused");
  }

  net::HttpClient client_;
  std::string model_;
  net::Headers via_;
  bool came_back_ = false;  ///< a completion reached this daemon's own router
  EngineAbilities found_;
};

}  // namespace

schema::Result<EngineAbilities> probe_engine(const std::string& base_url, const std::string& model,
                                             const net::OutgoingPolicy& policy,
                                             const std::string& router_mark) {
  auto client = TRY(engine_http(base_url, policy, false));
  return Probe(std::move(client), model, router_mark).run();
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EngineAbilities, models, stated_checkpoint, stated_kernel, health,
                                   completions, logprobs, echo_rescoring, stream, token_ids, notes)

std::string to_json(const EngineAbilities& abilities) {
  return schema::canonical_json(json(abilities));
}

schema::Result<EngineAbilities> abilities_from_json(std::string_view text) {
  const auto parsed = TRY(schema::parse_json(text, {}, "an engine's abilities"));
  try {
    return parsed.get<EngineAbilities>();
  } catch (const json::exception& fault) {
    return schema::fail(ErrorCode::corrupt,
                        fmt::format("an engine's stored abilities cannot be read: {}", fault.what()));
  }
}

}  // namespace driftgate::jobs
