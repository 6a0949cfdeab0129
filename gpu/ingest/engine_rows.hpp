#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "schema/error.hpp"

/// Reads what inference engines say of log-probabilities and writes it as a capture.
namespace driftgate::gpu::ingest {

inline constexpr std::size_t kMaxDocumentBytes = std::size_t{256} << 20;  ///< of one JSON file
inline constexpr std::uint32_t kMaxDocumentValues = 16'000'000;
inline constexpr std::size_t kMaxRows = 8'000'000;  ///< of one capture
inline constexpr std::size_t kMaxListed = 16'384;   ///< tokens listed in one row
/// Listed tokens of a file of saved logits, and of a capture that is written.
inline constexpr std::uint64_t kMaxKept = std::uint64_t{1} << 28;

enum class Format : std::uint8_t { openai, chat, vllm, sglang, llamacpp, llamacpp_logits };
[[nodiscard]] std::string_view to_string(Format format);  ///< "openai", "llamacpp-logits" …
[[nodiscard]] std::optional<Format> format_from_name(std::string_view name);

/// One position of a response. Unknown figures are absent, never 0.
struct EngineRow {
  std::int64_t sequence = 0, position = 0, token = 0;
  std::optional<float> logprob;
  std::vector<ListedToken> list;  ///< without a target token that was appended beyond the top-k
};

/// Ids of tokens that a response names by their text alone.
class TokenMap {
 public:
  /// Reads a JSON object from text to id.
  [[nodiscard]] static schema::Result<TokenMap> read(const std::string& path);
  void add(const std::string& text, std::int64_t id) { ids_[text] = id; }
  [[nodiscard]] bool empty() const { return ids_.empty(); }
  /// The id of a token's text: "token_id:17", as vLLM writes on request, or what the map says.
  [[nodiscard]] std::optional<std::int64_t> find(std::string_view text) const;

 private:
  std::map<std::string, std::int64_t, std::less<>> ids_;
};

/// What a reader needs beside the bytes.
struct ReadOptions {
  TokenMap tokens;
  bool matched = false;        ///< sglang: the log-probabilities of the ids that the request named
  std::size_t listed = 1'024;  ///< llamacpp-logits: how many of each row's tokens to keep
  std::int64_t first_sequence = 0;
};

/// What a file yields.
struct EngineRows {
  std::vector<EngineRow> rows;
  std::int64_t sequences = 0;
  std::uint32_t vocabulary = 0;  ///< 0 = the shape does not say
  double logprob_error = 0;      ///< largest absolute error of the log-probabilities, nats
};

/// Reads one JSON document, an array of them or JSON Lines in the shape of `format`; each response (each of
/// its choices) is a sequence, a row stands for one target token. A row of which the engine knows nothing
/// (the first token of a prompt) is left out. Errors: invalid_document, naming the member by its JSON
/// pointer, what was found, and what to ask the engine for; limit_exceeded.
[[nodiscard]] schema::Result<EngineRows> read_responses(Format format, std::string_view text,
                                                        const ReadOptions& options, const std::string& name);

/// Reads the saved logits of llama.cpp's perplexity tool (`--kl-divergence-base`): magic "_logits_", context,
/// vocabulary and chunks as 32-bit integers, the tokens of every chunk, then for each position of the second
/// half of a chunk but the last a float scale, a float least log-probability and a 16-bit code for each
/// token, log p = scale·code + least. A code of 0 says "at most": more than 16 nats under the likeliest
/// token. The likeliest `listed` tokens of each row are kept; half a step is the error.
[[nodiscard]] schema::Result<EngineRows> read_saved_logits(std::string_view bytes, const ReadOptions& options,
                                                           const std::string& name);

/// Metadata of the capture to write (docs/design/measurement.md, "Tensors and metadata").
struct CaptureLabels {
  std::string kernel, checkpoint_digest, corpus_digest, token_source, sampling_filter;
  std::string temperature = "1";
  std::uint32_t vocabulary = 0;
  bool matched = false;
};

/// Writes the rows as a capture in mode topk, matched, or realised when no row has a list. Errors: io,
/// invalid_argument when there are no rows or a token is outside the stated vocabulary, limit_exceeded.
[[nodiscard]] schema::Result<void> write_capture(const EngineRows& rows, const CaptureLabels& labels,
                                                 const std::string& path);

}  // namespace driftgate::gpu::ingest
