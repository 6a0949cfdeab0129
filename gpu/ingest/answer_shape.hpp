#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/ingest/engine_rows.hpp"

/// Recognises the answers of inference engines by what they hold. The path that was asked says little:
/// llama.cpp answers /v1/completions in the shape of chat completions, and proxies translate.
namespace driftgate::gpu::ingest {

/// The shape of one answer, or nothing when no log-probability is in it in a shape that is known:
///   sglang    `meta_info` with `input_token_logprobs` or `output_token_logprobs`
///   llamacpp  `completion_probabilities`
///   vllm      `prompt_logprobs`, of the answer or of a choice
///   chat      `choices[].logprobs.content`
///   openai    `choices[].logprobs.tokens`
/// The order matters: an answer may hold `prompt_logprobs` beside the log-probabilities of its choices.
[[nodiscard]] std::optional<Format> shape_of(const nlohmann::json& answer);

/// All shapes in words, for messages.
[[nodiscard]] std::string known_shapes();

/// True for the text of server-sent events (their lines begin with "data:", "event:", "id:" or ":").
[[nodiscard]] bool is_event_stream(std::string_view text);

/// The answers of the streams in `text`, each put together from its events: texts and lists of
/// log-probabilities of the same choice are appended; of `meta_info`, which SGLang repeats in whole, the last
/// one counts. A stream ends with the event [DONE] or where the `id` of the answer changes. Errors:
/// invalid_document, with the number of the line; limit_exceeded.
[[nodiscard]] schema::Result<std::vector<nlohmann::json>> join_streams(std::string_view text,
                                                                       const std::string& name);

}  // namespace driftgate::gpu::ingest
