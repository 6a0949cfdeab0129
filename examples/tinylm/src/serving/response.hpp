#pragma once
/// Response bodies of /v1/completions: complete ones, stream chunks and errors.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "examples/tinylm/src/serving/scheduler.hpp"

namespace tinylm {

struct ResponseIdentity {
  std::string id, model, fingerprint;
  std::int64_t created = 0;
};

/// Number of leading tokens of `tokens` before the earliest stop string; all of them when none occurs.
std::size_t tokens_before_stop(std::span<const TokenResult> tokens, const std::vector<std::string>& stops);

/// Number of leading tokens that may be sent while generation continues: without those at the end that could
/// be the beginning of a stop string.
std::size_t tokens_safe_to_send(std::span<const TokenResult> tokens, const std::vector<std::string>& stops);

std::string completion_body(const ResponseIdentity& identity, const Generation& generation,
                            std::span<const TokenResult> tokens, Finish finish);

/// Converts a growing result to stream chunks.
class ChunkWriter {
 public:
  ChunkWriter(ResponseIdentity identity, const Generation& generation);
  /// The chunk for the tokens that became safe to send, empty when there are none. `all` holds every token
  /// so far; with `finish` set the rest is flushed, and the finish reason, usage and [DONE] follow.
  std::string advance(std::span<const TokenResult> all, Finish finish);

 private:
  std::string chunk(std::span<const TokenResult> tokens, const std::string& text, Finish finish);

  ResponseIdentity identity_;
  const Generation& generation_;
  std::size_t sent_tokens_ = 0, offset_ = 0;
  std::string bytes_;  ///< bytes of sent tokens whose text is still to be sent
  bool echoed_ = false;
};

std::string error_body(const ApiError& error);

}  // namespace tinylm
