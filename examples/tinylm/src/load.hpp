#pragma once
/// Sends paced traffic, of limited amount, to a server on this machine.

#include <cstddef>
#include <cstdint>
#include <string>

#include "examples/tinylm/src/result.hpp"

namespace tinylm {

struct LoadOptions {
  std::string url, prompts, key_prefix = "u", model = "tinylm", json_out;
  double rate = 60, seconds = 0, stream_share = 0.3;
  double chat_share = 0;  ///< of the requests: sent to /v1/chat/completions, the prompt as the user's message
  std::size_t requests = 0, max_tokens = 16, concurrency = 32;
  std::uint64_t keys = 0;  ///< distinct sticky keys; 0: one for each request
  std::uint64_t seed = 1;
};

/// Requests are sent at fixed times, independent of the responses (open loop), on at most `concurrency`
/// connections; latency counts from the scheduled time. Only a loopback address is accepted.
Result<void> run_load(const LoadOptions& options);

}  // namespace tinylm
