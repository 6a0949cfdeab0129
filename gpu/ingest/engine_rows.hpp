#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "schema/error.hpp"

/// Reads the log-probabilities that inference engines report and writes them as a capture.
namespace driftgate::gpu::ingest {

inline constexpr std::size_t kMaxDocumentBytes = std::size_t{256} << 20;  ///< of one JSON file
inline constexpr std::uint32_t kMaxDocumentValues = 16'000'000;
inline constexpr std::size_t kMaxRows = 8'000'000;  ///< of one capture
inline constexpr std::size_t kMaxListed = 16'384;   ///< tokens listed in one row
/// Limit on the listed tokens of one file of saved logits, and of one capture that is written.
inline constexpr std::uint64_t kMaxKept = std::uint64_t{1} << 28;

enum class Format : std::uint8_t { openai, chat, vllm, sglang, llamacpp, llamacpp_logits };
[[nodiscard]] std::string_view to_string(Format format);  ///< "openai", "llamacpp-logits" …
[[nodiscard]] std::optional<Format> format_from_name(std::string_view name);

/// One position of a response. Unknown values are absent, never 0.
struct EngineRow {
  std::int64_t sequence = 0, position = 0, token = 0;
  std::optional<float> logprob;
  std::vector<ListedToken> list;  ///< without a target token that the engine appended to its top-k
};

/// Maps the text of tokens to their ids, for responses that contain no ids.
class TokenMap {
 public:
  /// Reads a JSON object whose keys are texts and whose values are ids. Errors: io, invalid_document.
  [[nodiscard]] static schema::Result<TokenMap> read(const std::string& path);
  void add(const std::string& text, std::int64_t id) { ids_[text] = id; }
  [[nodiscard]] bool empty() const { return ids_.empty(); }
  /// The id of a token from its text: by the map, or of "token_id:17", which vLLM writes on request.
  [[nodiscard]] std::optional<std::int64_t> find(std::string_view text) const;

 private:
  std::map<std::string, std::int64_t, std::less<>> ids_;
};

/// Options of the readers.
struct ReadOptions {
  TokenMap tokens;
  bool matched = false;        ///< sglang: read the log-probabilities of the ids that the request named
  std::size_t listed = 1'024;  ///< llamacpp-logits: number of tokens to keep of each row
  std::int64_t first_sequence = 0;
};

/// The rows of one file.
struct EngineRows {
  std::vector<EngineRow> rows;
  std::int64_t sequences = 0;
  std::uint32_t vocabulary = 0;  ///< 0: the format does not state it
  double logprob_error = 0;      ///< largest absolute error of the log-probabilities, nats
  /// Answers whose list is not that of all their tokens (lists_every_token in answer_tokens.hpp). They are
  /// sequences without rows, since their ids and positions are not those of the tokens.
  std::uint64_t incomplete = 0;
  std::string first_incomplete{};  ///< where the first of them stands, or ""
};

/// Reads one JSON document, an array of documents, JSON Lines, or the server-sent events of streams, in the
/// format `format`, or, without one, each response in the shape that it has (answer_shape.hpp). Each
/// response, or each of its choices, becomes a sequence with one row for each target token. Rows without any
/// known log-probability, such as the first token of a prompt, are left out, and so are answers that list
/// fewer tokens than they say they have (EngineRows::incomplete). Errors: invalid_document, with
/// the JSON pointer of the member, what was found and what to request from the engine; limit_exceeded.
[[nodiscard]] schema::Result<EngineRows> read_responses(std::optional<Format> format, std::string_view text,
                                                        const ReadOptions& options, const std::string& name);
/// True for the first bytes of a file that read_saved_logits reads.
[[nodiscard]] bool is_saved_logits(std::string_view bytes);

/// Reads the saved logits of llama.cpp's perplexity tool (`--kl-divergence-base`). The file holds the magic
/// "_logits_", then context, vocabulary and number of chunks as 32-bit integers, the tokens of every chunk,
/// and then, for each position of the second half of a chunk but the last, a float scale, a float least
/// log-probability and a 16-bit code for each token, with log p = scale·code + least. A code of 0 means "at
/// most": more than 16 nats below the most likely token. The `listed` most likely tokens of each row are
/// kept; the error of their log-probabilities is half a step of the scale. Errors: invalid_document,
/// limit_exceeded.
[[nodiscard]] schema::Result<EngineRows> read_saved_logits(std::string_view bytes, const ReadOptions& options,
                                                           const std::string& name);

/// Metadata of the capture to write (docs/design/measurement.md, "Tensors and metadata").
struct CaptureLabels {
  std::string kernel, checkpoint_digest, corpus_digest, token_source, sampling_filter;
  std::string temperature = "1";
  std::uint32_t vocabulary = 0;
  bool matched = false;
};

/// Writes the rows as a capture in mode topk, matched or, when no row has a list, realised. Errors: io,
/// invalid_argument when there are no rows or a token is outside the stated vocabulary, limit_exceeded.
[[nodiscard]] schema::Result<void> write_capture(const EngineRows& rows, const CaptureLabels& labels,
                                                 const std::string& path);

}  // namespace driftgate::gpu::ingest
