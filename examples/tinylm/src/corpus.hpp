#pragma once
/// Corpora as JSON Lines: sequences to score, and prompts to complete.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "examples/tinylm/src/result.hpp"

namespace tinylm {

struct Sequence {
  std::int32_t number = 0;
  std::string id;
  std::map<std::string, std::string> slices;
  std::vector<std::int32_t> tokens;  ///< begins with BOS
  std::size_t score_from = 0;        ///< index of the first scored token; 0: the caller's last positions
  std::string prompt;                ///< of prompt files
};

struct Corpus {
  std::vector<Sequence> sequences;
  std::string digest;        ///< "sha256:…" of the file's bytes
  std::string token_source;  ///< "corpus", or the kernel that sampled the tokens
};

/// Rows carry `token_ids`, `text` or `prompt`; ids must be tokens, at most `max_tokens` in a sequence.
Result<Corpus> read_corpus(const std::string& path, std::size_t max_tokens);

/// BOS and the bytes of a text.
std::vector<std::int32_t> tokens_of_text(const std::string& text);

}  // namespace tinylm
