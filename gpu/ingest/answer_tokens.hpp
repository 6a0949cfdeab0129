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

}  // namespace driftgate::gpu::ingest
