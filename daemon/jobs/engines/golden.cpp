#include "daemon/jobs/engines/golden.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "daemon/base/ascii.hpp"
#include "daemon/base/json_members.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"
#include "schema/utf8.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr std::size_t kMaxMembers = 256;
constexpr std::size_t kMaxValueBytes = 256;  ///< a longer text is told by its digest
constexpr std::size_t kBytesOfToken = 4;     ///< an estimate, where the engine counts no tokens

/// Where an engine tells more of itself than in /v1/models.
struct Endpoint {
  std::string_view path, name;
};
constexpr std::array<Endpoint, 4> kEndpoints{Endpoint{"/version", "version"}, Endpoint{"/props", "props"},
                                             Endpoint{"/get_model_info", "model_info"},
                                             Endpoint{"/get_server_info", "server_info"}};
/// Members that say when it was asked or started, not what it is: `created` of /v1/models, and the random text that
/// llama.cpp's /props has for the places of images since each start.
constexpr std::array<std::string_view, 2> kOfThisTime{"created", "media_marker"};

/// An engine without the endpoint, or one that does not show it to us.
bool is_absent(int status) {
  return status == 400 || status == 401 || status == 403 || status == 404 || status == 405 || status == 501;
}

std::string value_text(const json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return text.size() <= kMaxValueBytes ? text : schema::sha256_digest(text);
  }
  return value.dump();
}

/// An engine may tell the keys that it was started with (SGLang's /get_server_info): they are no part of what
/// it is, and must not become evidence.
bool is_secret(std::string_view name) {
  constexpr std::array<std::string_view, 9> kWords{"api_key",    "apikey",       "secret",
                                                   "password",   "credential",   "authorization",
                                                   "auth_token", "access_token", "hf_token"};
  std::string plain;
  for (const char c : name) plain += c == '-' ? '_' : base::lower(c);
  const auto holds = [&](std::string_view word) { return plain.contains(word); };
  return std::ranges::any_of(kWords, holds);
}

void add_members(const json& object, std::string_view prefix, stages::Identity& identity) {
  for (const auto& [name, value] : object.items()) {
    const bool told = value.is_string() || value.is_number() || value.is_boolean();
    const bool of_this_time = std::ranges::find(kOfThisTime, name) != kOfThisTime.end();
    if (!told || of_this_time || is_secret(name) || identity.size() >= kMaxMembers) continue;
    identity[fmt::format("{}.{}", prefix, schema::utf8_text(name, kMaxValueBytes))] = value_text(value);
  }
}

std::unexpected<schema::Error> not_told(const net::HttpClient& client, std::string_view path, int status) {
  return schema::fail(ErrorCode::unavailable, fmt::format("GET {} of the engine at {} answered {}", path,
                                                          client.base().base(), status));
}

schema::Result<void> add_model(net::HttpClient& client, const std::string& model,
                               stages::Identity& identity) {
  const auto answer = TRY(client.send(engine_get(client, "/v1/models")));
  if (answer.status != 200) return not_told(client, "/v1/models", answer.status);
  const auto parsed = TRY(schema::parse_json(answer.body, {}, "the answer to GET /v1/models"));
  const json* listed = base::member(parsed, "data");
  if (listed == nullptr || !listed->is_array()) return {};
  for (const json& item : *listed) {
    if (base::text_at(item, "id") == model) add_members(item, "models", identity);
  }
  return {};
}

std::uint64_t tokens_of(const std::string& body, const stages::ProbeAnswer& answer,
                        const std::string& prompt) {
  const auto parsed = json::parse(body, nullptr, false);
  const json* usage = base::member(parsed, "usage");
  const std::int64_t told = usage == nullptr ? 0 : base::integer_at(*usage, "total_tokens");
  if (told > 0) return static_cast<std::uint64_t>(told);
  return prompt.size() / kBytesOfToken + 1 + answer.tokens.size();
}

std::string prompt_of(std::string_view line) {
  const auto parsed = schema::parse_json(line, {}, "a line of the corpus");
  if (!parsed || !parsed->is_object()) return {};
  for (const char* name : {"prompt", "text"}) {
    auto text = base::text_at(*parsed, name);
    if (!text.empty() && text.size() <= kMaxGoldenPromptBytes) return text;
  }
  return {};
}

}  // namespace

GoldenEngine golden_engine(std::string base_url, const std::string& model, const EngineAbilities& abilities) {
  GoldenEngine engine{.base_url = std::move(base_url),
                      .model = abilities.models.empty() ? model : abilities.models.front(),
                      .by = abilities.logprobs_by};
  if (engine.by == LogprobsBy::none && abilities.chat_logprobs) {
    engine.by = LogprobsBy::top_logprobs;
    engine.chat = true;
  }
  return engine;
}

schema::Result<GoldenAnswer> ask_golden(const GoldenEngine& engine, const std::string& prompt,
                                        const net::OutgoingPolicy& policy) {
  auto client = TRY(engine_http({engine.base_url, engine.access}, policy, false, kGoldenTimeout));
  json body{{"model", engine.model}, {"max_tokens", kGoldenTokens}, {"temperature", 0}};
  if (engine.chat) {
    body["messages"] = json::array({{{"role", "user"}, {"content", prompt}}});
  } else {
    body["prompt"] = prompt;
  }
  body.update(logprobs_members(engine.by));
  const auto path = engine.chat ? "/v1/chat/completions" : "/v1/completions";
  const auto answer = TRY(client.send(engine_post(client, path, body)));
  if (answer.status != 200) {
    return schema::fail(ErrorCode::unavailable, fmt::format("the engine {} answered {} to a golden prompt",
                                                            client.base().base(), answer.status));
  }
  auto scored = TRY(parse_logprobs(answer.body));
  GoldenAnswer golden{.answer = {std::move(scored.tokens), std::move(scored.logprobs)}};
  golden.tokens = tokens_of(answer.body, golden.answer, prompt);
  return golden;
}

schema::Result<stages::Identity> read_identity(const EngineAddress& engine, const std::string& model,
                                               const net::OutgoingPolicy& policy) {
  auto client = TRY(engine_http(engine, policy, false, kGoldenTimeout));
  stages::Identity identity;
  TRY(add_model(client, model, identity));
  for (const Endpoint& endpoint : kEndpoints) {
    const auto answer = TRY(client.send(engine_get(client, endpoint.path)));
    if (is_absent(answer.status)) continue;
    if (answer.status != 200) return not_told(client, endpoint.path, answer.status);
    const auto told = schema::parse_json(answer.body, {}, "what an engine tells of itself");
    if (told && told->is_object()) add_members(*told, endpoint.name, identity);
  }
  const auto key = TRY(base::read_key(engine.access));
  const auto word = key ? key->value.substr(key->value.rfind(' ') + 1) : std::string();
  if (key) std::erase_if(identity, [&](const auto& member) { return member.second.contains(word); });
  return identity;
}

std::vector<std::string> choose_prompts(std::string_view corpus, std::size_t count, std::uint64_t seed) {
  std::vector<std::string> chosen;
  stages::Random random(seed);
  std::uint64_t seen = 0;
  while (count > 0) {
    const std::size_t end = corpus.find('\n');
    if (end == std::string_view::npos) break;
    auto prompt = prompt_of(corpus.substr(0, end));
    corpus.remove_prefix(end + 1);
    if (prompt.empty()) continue;
    ++seen;
    if (chosen.size() < count) {
      chosen.push_back(std::move(prompt));
    } else if (const std::uint64_t place = random.below(seen); place < count) {
      chosen[place] = std::move(prompt);
    }
  }
  return chosen;
}

}  // namespace driftgate::jobs
