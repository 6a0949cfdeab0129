#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/route/control/telemetry.hpp"
#include "schema/error.hpp"
#include "schema/json.hpp"
#include "stages/shadow_runtime.hpp"

namespace driftgate::jobs {

/// Of the bodies of mirrored requests and answers.
inline constexpr schema::JsonLimits kBodyLimits{.bytes = 16u << 20, .depth = 32, .values = 2'000'000};

/// A mirrored request as the statistics see it: how both sides ended and their latencies.
[[nodiscard]] stages::ShadowPair pair_of(const route::MirroredPair& mirrored);

/// JSON Lines of pair records, without prompts or answers, and back (`invalid_document` with the line). With
/// a random `salt` the first line is {"salt":…}: the digest of the lines then tells nothing about them to who
/// guesses, once they are destroyed (docs/design/evidence.md, "Personal data"). Reading skips it.
[[nodiscard]] std::string pairs_to_jsonl(const std::vector<stages::ShadowPair>& pairs,
                                         std::string_view salt = {});
[[nodiscard]] schema::Result<std::vector<stages::ShadowPair>> pairs_from_jsonl(std::string_view text);

/// What one side of a pair generated: the text, and the tokens when the answer lists them. Reads JSON answers
/// and concatenated server-sent events of completions and chat completions. Empty when there is nothing.
struct Generated {
  std::string text{};
  std::vector<std::string> tokens{};
  std::vector<double> logprobs{};  ///< one for each of `tokens`; NaN where the engine does not know it
  /// `prompt_token_ids` and `token_ids`, or the ids of `tokens`, where the engine gives them and they are
  /// those of all tokens.
  std::vector<std::int64_t> prompt_ids{}, ids{};
  bool has_choice = false;  ///< there was an answer at all, maybe of no text
  /// `tokens` has one entry for each token, as far as the answer says (gpu::ingest::lists_every_token). Where
  /// not, neither its entries nor their places can be compared with those of another answer.
  bool lists_all = true;
};
[[nodiscard]] Generated generated_of(const route::MirroredPair::Side& side);

/// The prompt of a completions request when it is one text, else empty.
[[nodiscard]] std::string prompt_of(const route::MirroredPair& pair);

/// What an engine takes for a sampling parameter that a request leaves out, by the parameter's name, as far
/// as the engine tells it.
using SamplingDefaults = std::map<std::string, double, std::less<>>;
/// Reads the answer to GET /props of llama.cpp's server: `default_generation_settings` and its `params`.
/// Empty for anything else.
[[nodiscard]] SamplingDefaults sampling_defaults(std::string_view props_json);

/// How the tokens of an answer were sampled.
enum class Sampling : std::uint8_t {
  unfiltered,  ///< from the kernel's own distribution: temperature 1, no filter, no penalty
  filtered,    ///< not so
  unknown,     ///< the request leaves out a parameter for which the engine may take anything
};
/// By what the request states, else by what the engine takes. Engines differ in what they take for
/// `temperature`, `top_p`, `top_k`, `min_p` and `repetition_penalty` (llama.cpp: 0.8, 0.95, 40, 0.05, 1;
/// vLLM: what the model's generation_config.json says), so that silence on one of these is `unknown` where
/// the engine does not tell. What neither states otherwise counts as neutral.
[[nodiscard]] Sampling sampling_of(const route::MirroredPair& pair, const SamplingDefaults& defaults);

/// How many tokens (characters when a side does not list all of its own) agree before the first difference,
/// and how many were compared.
struct Agreement {
  std::uint32_t equal = 0, compared = 0;
};
[[nodiscard]] Agreement compare_generated(const Generated& a, const Generated& b);

/// How far two greedy answers to one prompt agree: by the tokens' ids where both answers have those of all
/// tokens, else by their texts. Nothing where an answer does not list all of its tokens.
[[nodiscard]] std::optional<stages::GreedyAgreement> greedy_agreement(const Generated& a, const Generated& b);

}  // namespace driftgate::jobs
