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
  std::size_t score_from =
      0;  ///< index of the first scored token; 0: the last positions, as many as the caller asks for
  std::string prompt;  ///< in files of prompts
};

struct Corpus {
  std::vector<Sequence> sequences;
  std::string digest;        ///< "sha256:…" of the file's bytes
  std::string token_source;  ///< "corpus", or the kernel that sampled the tokens
};

/// Reads a corpus. Rows hold `token_ids`, `text` or `prompt`; a sequence has at most `max_tokens` tokens.
/// Errors name the line.
Result<Corpus> read_corpus(const std::string& path, std::size_t max_tokens);

/// The tokens of a text: BOS and its bytes.
std::vector<std::int32_t> tokens_of_text(const std::string& text);

}  // namespace tinylm
