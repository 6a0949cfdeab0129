#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/net/http_client.hpp"
#include "daemon/net/outgoing.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

inline constexpr std::chrono::milliseconds kEngineTimeout{10'000};  ///< one exchange with an engine

/// A client for an engine's base URL, with the outgoing policy applied.
[[nodiscard]] schema::Result<net::HttpClient> engine_http(const std::string& base_url,
                                                          const net::OutgoingPolicy& policy, bool keep_alive);
[[nodiscard]] net::ClientRequest engine_get(const net::HttpClient& client, std::string_view path);
[[nodiscard]] net::ClientRequest engine_post(const net::HttpClient& client, std::string_view path,
                                             const nlohmann::json& body);

/// What an engine was seen to do when it was probed. An ability that is absent is never guessed later.
struct EngineAbilities {
  std::vector<std::string> models;  ///< ids of /v1/models
  std::string stated_checkpoint;    ///< `checkpoint_digest` of the model entry, if stated
  std::string stated_kernel;        ///< `kernel` of the model entry, if stated
  bool health = false;              ///< GET /health answered 2xx
  bool completions = false;         ///< POST /v1/completions answered as promised
  bool logprobs = false;            ///< completions shape: token_logprobs parallel to tokens
  bool echo_rescoring = false;  ///< echo + max_tokens 0 + logprobs gives the prompt's token log-probabilities
  bool stream = false;          ///< server-sent events that end with [DONE]
  bool token_ids = false;       ///< prompts given as lists of token ids are accepted
  std::vector<std::string> notes;  ///< one sentence for each ability that is missing: what was seen
};
[[nodiscard]] std::string to_json(const EngineAbilities& abilities);
[[nodiscard]] schema::Result<EngineAbilities> abilities_from_json(std::string_view json);

/// Probes `base_url` ("http://host:port[/path]"); `model` is the id to ask for, empty = the engine's
/// first. `router_mark` is this daemon's router in Via (pipeline::Parts::router_mark), or empty: its requests would come
/// back to it from an engine that refuses the probe with 508. Errors: `invalid_argument` (URL, or an engine
/// that leads back to the router), `forbidden` (host), `unavailable` (nothing listens, or /v1/models and
/// /v1/completions do not answer).
[[nodiscard]] schema::Result<EngineAbilities> probe_engine(const std::string& base_url,
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

/// Teacher forcing by `echo`, `max_tokens: 0`, `logprobs`, over one kept connection. One thread at a time.
class EngineClient {
 public:
  [[nodiscard]] static schema::Result<EngineClient> connect(const std::string& base_url, std::string model,
                                                            const net::OutgoingPolicy& policy);
  /// The tokens of `text` and their log-probabilities. `unavailable` when the engine does not answer 200,
  /// `invalid_document` when the answer is of another shape.
  [[nodiscard]] schema::Result<ScoredText> score(std::string_view text);
  /// The same for tokens given by their ids.
  [[nodiscard]] schema::Result<ScoredText> score(const std::vector<std::int64_t>& ids);

 private:
  EngineClient(net::HttpClient client, std::string model)
      : client_(std::move(client)), model_(std::move(model)) {}
  schema::Result<ScoredText> send(const nlohmann::json& prompt);
  net::HttpClient client_;
  std::string model_;
};

/// The first of an answer's choices; null when it has none.
[[nodiscard]] const nlohmann::json* first_choice(const nlohmann::json& answer);

/// Reads the tokens of an answer's first choice in any shape that is known (gpu/ingest/answer_shape.hpp), of
/// at most 16 MiB. `invalid_document` when it holds no log-probabilities, or lists of different lengths.
[[nodiscard]] schema::Result<ScoredText> parse_logprobs(std::string_view answer_json);

}  // namespace driftgate::jobs
