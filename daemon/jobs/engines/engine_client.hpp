#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/engine_access.hpp"
#include "daemon/net/http_client.hpp"
#include "daemon/net/outgoing.hpp"
#include "schema/error.hpp"
#include "stages/abilities.hpp"

namespace driftgate::jobs {

inline constexpr std::chrono::milliseconds kEngineTimeout{10'000};  ///< one exchange with an engine

/// Where an engine is, and what it takes to be let in. A text is the base URL of one that asks for nothing.
struct EngineAddress {
  EngineAddress(std::string base_url, base::EngineAccess by = {})
      : url(std::move(base_url)), access(std::move(by)) {}
  EngineAddress(const char* base_url) : url(base_url) {}
  std::string url;  ///< "http[s]://host:port[/prefix]"
  base::EngineAccess access{};
};

/// A client for an engine, with the outgoing policy applied and its key in every request. `timeout` is that
/// of one exchange. Errors of the URL, of the policy, and of base::read_key; `forbidden` for a key where the
/// settings do not name the host.
[[nodiscard]] schema::Result<net::HttpClient> engine_http(const EngineAddress& engine,
                                                          const net::OutgoingPolicy& policy, bool keep_alive,
                                                          std::chrono::milliseconds timeout = kEngineTimeout);
[[nodiscard]] net::ClientRequest engine_get(const net::HttpClient& client, std::string_view path);
[[nodiscard]] net::ClientRequest engine_post(const net::HttpClient& client, std::string_view path,
                                             const nlohmann::json& body);

/// How an engine gives the log-probabilities of tokens that it is given.
enum class Scoring : std::uint8_t {
  none,
  echo,             ///< /v1/completions with echo and max_tokens 0: OpenAI's completions, tinylm
  prompt_logprobs,  ///< /v1/completions with prompt_logprobs: vLLM
  generate,         ///< /generate with logprob_start_len: SGLang
};
[[nodiscard]] std::string_view to_string(Scoring scoring);  ///< "none", "echo" …
void to_json(nlohmann::json& value, Scoring scoring);
void from_json(const nlohmann::json& value, Scoring& scoring);  ///< `none` for an unknown name

/// How an engine is asked for the log-probabilities of the tokens that it generates in /v1/completions.
enum class LogprobsBy : std::uint8_t {
  none,
  count,         ///< "logprobs": 1, as OpenAI's completions have it
  top_logprobs,  ///< "logprobs": true with "top_logprobs", as chat completions have it
  n_probs,       ///< "n_probs", llama.cpp's own
};
void to_json(nlohmann::json& value, LogprobsBy by);           ///< "none", "count" …
void from_json(const nlohmann::json& value, LogprobsBy& by);  ///< `none` for an unknown name
/// The members of a request that asks so.
[[nodiscard]] nlohmann::json logprobs_members(LogprobsBy by);

/// What an engine was seen to do when it was probed. An ability that is absent is never guessed later.
struct EngineAbilities {
  std::vector<std::string> models;  ///< ids of /v1/models
  std::string stated_checkpoint;    ///< `checkpoint_digest` of the model entry, if stated
  std::string stated_kernel;        ///< `kernel` of the model entry, if stated
  bool health = false;              ///< GET /health answered 2xx
  bool completions = false;         ///< POST /v1/completions gives text
  bool logprobs = false;            ///< and the log-probabilities of its tokens, in `logprobs_shape`
  LogprobsBy logprobs_by = LogprobsBy::none;
  bool chat = false;           ///< POST /v1/chat/completions gives a message
  bool chat_logprobs = false;  ///< and the log-probabilities of its tokens
  std::string logprobs_shape;  ///< a Format's name (gpu/ingest/engine_rows.hpp); "" without log-probabilities
  Scoring scoring = Scoring::none;
  bool stream = false;          ///< server-sent events that end with [DONE]
  bool token_ids = false;       ///< prompts given as lists of token ids are accepted
  std::vector<std::string> notes;  ///< one sentence for each ability that is missing: what was seen
};
[[nodiscard]] std::string to_json(const EngineAbilities& abilities);
[[nodiscard]] schema::Result<EngineAbilities> abilities_from_json(std::string_view json);

/// The abilities as far as a contract's clauses depend on them.
[[nodiscard]] stages::EngineCan engine_can(std::string name, const EngineAbilities& abilities);

/// Probes an engine; `model` is the id to ask for, empty = the engine's first. Of log-probabilities and of
/// scoring each known way is tried until one works. `router_mark` is this daemon's router in Via
/// (pipeline::Parts::router_mark), or empty: its requests would come back to it from an engine that refuses
/// the probe with 508. Errors: those of engine_http; `invalid_argument` (an engine that leads back to the
/// router, or that wants a key, or another one), `forbidden` (its certificate is not trusted), `unavailable`
/// (nothing listens, or /v1/models, or both /v1/completions and /v1/chat/completions do not answer).
[[nodiscard]] schema::Result<EngineAbilities> probe_engine(const EngineAddress& engine,
                                                           const std::string& model,
                                                           const net::OutgoingPolicy& policy,
                                                           const std::string& router_mark = {});

/// The tokens of an answer and their log-probabilities under one engine. Unknown values (null, −9999, −∞) are
/// NaN.
struct ScoredText {
  std::vector<std::string> tokens;  ///< bytes where the answer gives them, else text
  std::vector<double> logprobs;
  std::vector<std::int64_t> ids;           ///< as many as tokens, or none
  std::vector<std::int64_t> text_offsets;  ///< as many as tokens, or none
};

/// Scores given tokens (teacher forcing) over one kept connection. One thread at a time.
class EngineClient {
 public:
  /// Precondition: `scoring` is not `none`.
  [[nodiscard]] static schema::Result<EngineClient> connect(const EngineAddress& engine, std::string model,
                                                            Scoring scoring,
                                                            const net::OutgoingPolicy& policy);
  /// The tokens of `text` and their log-probabilities. `unavailable` when the engine does not answer 200,
  /// `invalid_document` when the answer is of another shape.
  [[nodiscard]] schema::Result<ScoredText> score(std::string_view text);
  /// The same for tokens given by their ids.
  [[nodiscard]] schema::Result<ScoredText> score(const std::vector<std::int64_t>& ids);

 private:
  EngineClient(net::HttpClient client, std::string model, Scoring scoring)
      : client_(std::move(client)), model_(std::move(model)), scoring_(scoring) {}
  schema::Result<ScoredText> send(const nlohmann::json& prompt);
  net::HttpClient client_;
  std::string model_;
  Scoring scoring_;
};

/// The request by which an engine scores `prompt`, a text or a list of ids: path and body.
struct ScoringRequest {
  std::string_view path;
  nlohmann::json body;
};
[[nodiscard]] ScoringRequest scoring_request(Scoring scoring, const std::string& model,
                                             const nlohmann::json& prompt);

/// The first of an answer's choices; null when it has none.
[[nodiscard]] const nlohmann::json* first_choice(const nlohmann::json& answer);

/// Reads the tokens of an answer's first choice in any shape that is known (gpu/ingest/answer_shape.hpp), of
/// at most 16 MiB. `invalid_document` when it holds no log-probabilities, or lists of different lengths.
[[nodiscard]] schema::Result<ScoredText> parse_logprobs(std::string_view answer_json);

}  // namespace driftgate::jobs
