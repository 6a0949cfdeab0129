#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/net/outgoing.hpp"
#include "schema/error.hpp"
#include "stages/guard/identity.hpp"
#include "stages/guard/probe_watch.hpp"

namespace driftgate::jobs {

inline constexpr int kGoldenTokens = 4;  ///< greedy tokens of an answer to a golden prompt
inline constexpr std::chrono::milliseconds kGoldenTimeout{5'000};  ///< of one exchange with an engine
inline constexpr std::size_t kMaxGoldenPromptBytes = 4'096;
/// Of a corpus, prompts are looked for in this many bytes from its beginning.
inline constexpr std::size_t kGoldenCorpusBytes = std::size_t{64} << 20;

/// The answer to a golden prompt, and the tokens that prompt and answer took.
struct GoldenAnswer {
  stages::ProbeAnswer answer;
  std::uint64_t tokens = 0;  ///< as the engine counts them, else estimated from the text's length
};

/// Whom a golden prompt is put to, and how.
struct GoldenEngine {
  std::string base_url;
  std::string model;                 ///< the id that the engine is asked for
  LogprobsBy by = LogprobsBy::none;  ///< how log-probabilities are asked for; `none`: it gives none
  bool chat = false;                 ///< the prompt is a user's message of a chat, for want of completions
  base::EngineAccess access{};
};
/// As it was probed. `model` is asked for where the engine lists no model.
[[nodiscard]] GoldenEngine golden_engine(std::string base_url, const std::string& model,
                                         const EngineAbilities& abilities);

/// Asks the engine for the greedy answer to a prompt, with log-probabilities. Errors: those of the URL
/// (`invalid_argument`, `forbidden`), `unavailable` when it does not answer 200, `invalid_document` for an
/// answer of another shape. Precondition: `by` is not `none`.
[[nodiscard]] schema::Result<GoldenAnswer> ask_golden(const GoldenEngine& engine, const std::string& prompt,
                                                      const net::OutgoingPolicy& policy);

/// What an engine tells of itself: the entry of `model` in GET /v1/models, and the members of GET /version,
/// /props (llama.cpp), /get_model_info and /get_server_info (SGLang) that are texts, numbers or truth values,
/// each as "version.version", "models.kernel" and so on. An endpoint that the engine does not have tells
/// nothing, nor does a member that holds a secret. Errors as above; also `unavailable` when an endpoint fails
/// otherwise, so that a part of an identity is never taken for all.
[[nodiscard]] schema::Result<stages::Identity> read_identity(const EngineAddress& engine,
                                                             const std::string& model,
                                                             const net::OutgoingPolicy& policy);

/// Chooses `count` prompts (fewer if there are no more) from the lines of a corpus: its `prompt`, else its
/// `text`, of 1 to kMaxGoldenPromptBytes bytes, drawn by the seed. Lines without one, and a last line that is
/// cut off, are left out.
[[nodiscard]] std::vector<std::string> choose_prompts(std::string_view corpus, std::size_t count,
                                                      std::uint64_t seed);

}  // namespace driftgate::jobs
