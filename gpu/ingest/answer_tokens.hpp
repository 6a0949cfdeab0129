#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::gpu::ingest {

/// One token of an answer, as the engine names it.
struct AnswerToken {
  std::string text;                    ///< its bytes where the answer gives them, else its text
  std::optional<std::int64_t> id;      ///< where the answer gives it
  double logprob = 0;                  ///< NaN: unknown (null, −9999 and below, −∞)
  std::optional<std::int64_t> offset;  ///< in characters of the text, where the answer gives it
};

/// The tokens of an answer's first choice in whatever shape they are (answer_shape.hpp), in their order. Of
/// SGLang's answers the prompt's tokens come first when the answer holds them. Errors: invalid_document, with
/// the JSON pointer of what is missing or of another type.
[[nodiscard]] schema::Result<std::vector<AnswerToken>> answer_tokens(const nlohmann::json& answer);

/// What an answer says of the number of its tokens.
struct StatedTokens {
  std::optional<std::uint64_t> count{};  ///< `usage.completion_tokens`, or llama.cpp's `tokens_predicted`
  /// The engine ended the answer by itself. The end token, or those of a stop word, need not be listed then.
  bool ended = false;
  bool several = false;  ///< there are several choices, whose tokens are counted together
};
/// Adds what an answer, or one event of its stream, says.
void add_stated(const nlohmann::json& answer, StatedTokens& stated);

/// Whether a list of objects (`logprobs.content`, `completion_probabilities`) has one entry for each token of
/// the answer's text. llama.cpp lists a character that takes several tokens as one entry, with the id and the
/// log-probability of the last of them, and lists nothing for tokens at the end that make no whole character.
/// Where the list is shorter than the count, that is so unless the engine ended the answer itself and either
/// no entry has a character beyond ASCII, which alone can take several tokens, or one token is missing and
/// the entries carry no ids, as in other engines' lists without the end token. Where no count is known, an
/// entry with an id and such a character is taken for several tokens.
[[nodiscard]] bool lists_every_token(const std::vector<AnswerToken>& tokens, const StatedTokens& stated);

}  // namespace driftgate::gpu::ingest
