#pragma once
/// The body of POST /v1/completions.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

namespace tinylm {

struct ApiError {
  int status;
  std::string type, code, message;
};

struct CompletionRequest {
  std::vector<std::int32_t> prompt;
  std::size_t max_tokens = 16;
  double temperature = 1.0;
  std::optional<std::uint64_t> seed = std::nullopt;
  bool stream = false, stream_usage = false, echo = false;
  std::optional<std::size_t> logprobs = std::nullopt;
  std::vector<std::string> stop = {};
};

/// Limits of one request; the model limits the context.
inline constexpr std::size_t kMaxLogprobs = 20;
inline constexpr std::size_t kMaxStops = 4;
inline constexpr std::size_t kMaxStopBytes = 64;

/// `prompt` is a string (BOS is prepended to its bytes) or an array of token ids (taken as they are).
/// Unknown fields are ignored, as other engines do; supported fields with unsupported values are errors.
std::expected<CompletionRequest, ApiError> parse_completion(const std::string& body, const std::string& model,
                                                            std::size_t max_positions);

}  // namespace tinylm
