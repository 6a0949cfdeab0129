#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "daemon/base/json_members.hpp"
#include "daemon/jobs/engines/engine_client.hpp"
#include "gpu/ingest/answer_shape.hpp"
#include "schema/failf.hpp"
#include "schema/json.hpp"
#include "schema/utf8.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr std::string_view kProbeText = "The answer is";
constexpr std::string_view kCompletions = "/v1/completions";
constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::size_t kMaxModels = 100;
constexpr std::size_t kMaxModelNameBytes = 256;
constexpr int kLoopDetected = 508;

/// The engine wants a key, or another one.
bool is_refusal(int status) {
  return status == 401 || status == 403;
}

/// The requests of a probe, each on its own so that one missing ability hides no other.
class Probe {
 public:
  Probe(net::HttpClient client, std::string model, const std::string& router_mark, bool has_key)
      : client_(std::move(client)), model_(std::move(model)), has_key_(has_key) {
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
    chat();
    if (came_back_) return leads_back();
    if (refusal_ != 0 && !found_.completions && !found_.chat) return refused("completions", refusal_);
    if (!found_.completions && !found_.chat) {
      return schema::fail(ErrorCode::unavailable,
                          fmt::format("the engine at {} is not an OpenAI-compatible engine: {}", name(),
                                      fmt::join(found_.notes, "; ")));
    }
    if (found_.completions) logprobs();
    if (found_.chat) chat_logprobs();
    scoring();
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

  [[nodiscard]] std::unexpected<schema::Error> refused(std::string_view what, int status) const {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("the engine at {} answered {} to {}: {}", name(), status, what,
                    has_key_ ? "it does not take the key of the key file"
                             : "it wants a key (driftgate engine register … --engine-key-file "
                               "FILE)"),
        "/key_file");
  }

  template <typename... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    found_.notes.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  schema::Result<void> models() {
    auto answer = TRY(client_.send(marked(engine_get(client_, "/v1/models"))));
    if (answer.status == kLoopDetected) return leads_back();
    if (is_refusal(answer.status)) return refused("GET /v1/models", answer.status);
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

  schema::Result<net::ClientResponse> ask(std::string_view path, json body) {
    body["model"] = model_;
    if (!body.contains("temperature")) body["temperature"] = 0;
    return client_.send(marked(engine_post(client_, path, body)));
  }

  /// The first choice of an answer, or null with a note of what came instead.
  std::optional<json> choice_of(std::string_view path, const json& body) {
    const auto answer = ask(path, body);
    if (!answer) {
      note("POST {}: {}", path, answer.error().describe());
      return std::nullopt;
    }
    came_back_ = came_back_ || answer->status == kLoopDetected;
    if (is_refusal(answer->status)) refusal_ = answer->status;
    if (answer->status != 200) {
      note("POST {} answered {}", path, answer->status);
      return std::nullopt;
    }
    const auto parsed = schema::parse_json(answer->body, {}, "the completion");
    const json* choice = parsed ? first_choice(*parsed) : nullptr;
    return choice != nullptr && choice->is_object() ? std::optional(*choice) : std::optional(json::object());
  }

  void completions() {
    const auto choice = choice_of(kCompletions, {{"prompt", kProbeText}, {"max_tokens", 1}});
    if (!choice) return;
    found_.completions = choice->contains("text");
    if (!found_.completions) note("the answer of POST {} has no choices with text", kCompletions);
  }

  void chat() {
    const auto choice = choice_of(kChat, {{"messages", messages()}, {"max_tokens", 1}});
    if (!choice) return;
    found_.chat = base::member(*choice, "message") != nullptr;
    if (!found_.chat) note("the answer of POST {} has no choices with a message", kChat);
  }

  static json messages() { return json::array({json{{"role", "user"}, {"content", kProbeText}}}); }

  /// The shape of the log-probabilities that an engine gives for a token that it generates, or why it gives
  /// none.
  schema::Result<std::string> logprobs_of(std::string_view path, const json& body) {
    const auto answer = TRY(ask(path, body));
    if (answer.status != 200)
      return schema::failf(ErrorCode::unavailable, "the request was refused with {}", answer.status);
    const auto scored = TRY(parse_logprobs(answer.body));
    if (scored.logprobs.empty() || !std::isfinite(scored.logprobs.front()))
      return schema::fail(ErrorCode::unavailable, "the log-probability of a generated token is unknown");
    const auto shape = gpu::ingest::shape_of(json::parse(answer.body));
    return std::string(shape ? gpu::ingest::to_string(*shape) : "");
  }

  void logprobs() {
    std::vector<std::string> failed;
    for (const LogprobsBy by : {LogprobsBy::count, LogprobsBy::top_logprobs, LogprobsBy::n_probs}) {
      const json members = logprobs_members(by);
      json body{{"prompt", kProbeText}, {"max_tokens", 1}};
      body.update(members);
      const auto shape = logprobs_of(kCompletions, body);
      if (shape) {
        found_.logprobs = true;
        found_.logprobs_by = by;
        found_.logprobs_shape = *shape;
        return;
      }
      failed.push_back(fmt::format("{} ({})", shape.error().message, members.dump()));
    }
    note("completions give no log-probabilities: {}", fmt::join(failed, "; "));
  }

  void chat_logprobs() {
    json body{{"messages", messages()}, {"max_tokens", 1}};
    body.update(logprobs_members(LogprobsBy::top_logprobs));
    const auto shape = logprobs_of(kChat, body);
    found_.chat_logprobs = shape.has_value();
    if (!shape) note("chat completions give no log-probabilities: {}", shape.error().message);
    if (shape && found_.logprobs_shape.empty()) found_.logprobs_shape = *shape;
  }

  /// Nothing when the engine scores the probe's text this way, else why not.
  schema::Result<void> scores_by(Scoring way) {
    const auto request = scoring_request(way, model_, kProbeText);
    const auto answer = TRY(ask(request.path, request.body));
    if (answer.status != 200)
      return schema::failf(ErrorCode::unavailable, "it was refused with {}", answer.status);
    const auto scored = TRY(parse_logprobs(answer.body));
    const auto parsed = TRY(schema::parse_json(answer.body, {}, "the completion"));
    const auto shape = gpu::ingest::shape_of(parsed);
    const json* choice = first_choice(parsed);
    if (way == Scoring::echo && (choice == nullptr || base::maybe_text_at(*choice, "text") != kProbeText))
      return schema::fail(ErrorCode::invalid_document, "the echoed text is not the prompt that was sent");
    if ((way == Scoring::prompt_logprobs && shape != gpu::ingest::Format::vllm) ||
        (way == Scoring::generate && shape != gpu::ingest::Format::sglang))
      return schema::fail(ErrorCode::invalid_document, "the prompt's tokens are not in the answer");
    const auto known = std::ranges::count_if(scored.logprobs, [](double x) { return std::isfinite(x); });
    if (scored.tokens.size() < 2 || static_cast<std::size_t>(known) + 1 < scored.tokens.size())
      return schema::fail(ErrorCode::invalid_document, "tokens of the prompt have no log-probabilities");
    return {};
  }

  void scoring() {
    std::vector<std::string> failed;
    for (const Scoring way : {Scoring::echo, Scoring::prompt_logprobs, Scoring::generate}) {
      const auto done = scores_by(way);
      if (done) {
        found_.scoring = way;
        return;
      }
      failed.push_back(fmt::format("{} ({})", done.error().message, to_string(way)));
    }
    note("given tokens cannot be scored: {}", fmt::join(failed, "; "));
  }

  void stream() {
    json body{{"model", model_}, {"max_tokens", 2}, {"stream", true}};
    body.update(found_.completions ? json{{"prompt", kProbeText}} : json{{"messages", messages()}});
    std::string seen;
    const auto answer =
        client_.stream(marked(engine_post(client_, found_.completions ? kCompletions : kChat, body)),
                       [&](std::string_view bytes) {
                         seen.append(bytes);
                         return true;
                       });
    found_.stream = answer && answer->status == 200 && seen.find("data:") != std::string::npos &&
                    seen.find("[DONE]") != std::string::npos;
    if (!found_.stream) note("a stream did not end with [DONE]");
  }

  void token_ids() {
    if (!found_.completions) return;
    const auto answer = ask(kCompletions, {{"prompt", json::array({1, 2, 3})}, {"max_tokens", 1}});
    found_.token_ids = answer && answer->status == 200;
    if (!found_.token_ids) note("prompts given as token ids were refused");
  }

  net::HttpClient client_;
  std::string model_;
  net::Headers via_;
  const bool has_key_;
  bool came_back_ = false;  ///< a completion reached this daemon's own router
  int refusal_ = 0;         ///< 401 or 403, when a completion was refused so
  EngineAbilities found_;
};

}  // namespace

schema::Result<EngineAbilities> probe_engine(const EngineAddress& engine, const std::string& model,
                                             const net::OutgoingPolicy& policy,
                                             const std::string& router_mark) {
  auto client = TRY(engine_http(engine, policy, false));
  return Probe(std::move(client), model, router_mark, !engine.access.key_file.empty()).run();
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EngineAbilities, models, stated_checkpoint, stated_kernel, health,
                                   completions, logprobs, logprobs_by, chat, chat_logprobs, logprobs_shape,
                                   scoring, stream, token_ids, notes)

/// Abilities that were stored before chat and other ways to score were probed.
static void upgrade(json& stored) {
  const json* echo = base::member(stored, "echo_rescoring");
  if (echo == nullptr || !echo->is_boolean()) return;
  stored["scoring"] = to_string(echo->get<bool>() ? Scoring::echo : Scoring::none);
  stored["chat"] = stored["chat_logprobs"] = false;
  const bool logprobs = base::member(stored, "logprobs") != nullptr && stored["logprobs"] == true;
  stored["logprobs_shape"] = logprobs ? "openai" : "";
  stored["logprobs_by"] = logprobs ? LogprobsBy::count : LogprobsBy::none;
}

stages::EngineCan engine_can(std::string name, const EngineAbilities& abilities) {
  return {.engine = std::move(name),
          .completions = abilities.completions,
          .chat = abilities.chat,
          .logprobs = abilities.logprobs_by != LogprobsBy::none,
          .chat_logprobs = abilities.chat_logprobs,
          .scores_given = abilities.scoring != Scoring::none,
          .streams = abilities.stream};
}

std::string to_json(const EngineAbilities& abilities) {
  return schema::canonical_json(json(abilities));
}

schema::Result<EngineAbilities> abilities_from_json(std::string_view text) {
  auto parsed = TRY(schema::parse_json(text, {}, "an engine's abilities"));
  try {
    upgrade(parsed);
    return parsed.get<EngineAbilities>();
  } catch (const json::exception& fault) {
    return schema::fail(ErrorCode::corrupt,
                        fmt::format("an engine's stored abilities cannot be read: {}", fault.what()));
  }
}

}  // namespace driftgate::jobs
