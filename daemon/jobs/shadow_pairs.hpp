#pragma once

#include <cstdint>
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
  /// `prompt_token_ids` and `token_ids`, or the ids of `tokens`, where the engine gives them.
  std::vector<std::int64_t> prompt_ids{}, ids{};
  bool has_choice = false;  ///< there was an answer at all, maybe of no text
};
[[nodiscard]] Generated generated_of(const route::MirroredPair::Side& side);

/// The prompt of a completions request when it is one text, else empty.
[[nodiscard]] std::string prompt_of(const route::MirroredPair& pair);

/// True when the request asks for samples as the engine gives them: temperature 1, no top_k, top_p or
/// penalties (what is absent is the engine's default, taken as unfiltered at temperature 1).
[[nodiscard]] bool sampled_unfiltered(const route::MirroredPair& pair);

/// How many tokens (characters when a side lists none) agree before the first difference, and how many
/// were compared.
struct Agreement {
  std::uint32_t equal = 0, compared = 0;
};
[[nodiscard]] Agreement compare_generated(const Generated& a, const Generated& b);

}  // namespace driftgate::jobs
