#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace driftgate::cli {

/// What `driftgate capture import` was asked for.
struct CaptureImportArgs {
  std::vector<std::string> files;  ///< responses or saved logits, in the order of their sequences
  std::string format;              ///< openai, chat, vllm, sglang, llamacpp, llamacpp-logits
  std::string out;                 ///< capture to write
  std::string token_map;           ///< JSON object from token text to id; empty = none
  std::string kernel, checkpoint_digest, corpus_digest, token_source, sampling_filter;
  double temperature = 1;
  std::uint32_t vocabulary = 0;
  bool matched = false;
  std::optional<std::uint32_t> listed;  ///< llamacpp-logits: tokens of each row to keep; absent = 1,024
  std::int64_t first_sequence = 0;
};

/// Adds the command's options.
void describe_capture_import(CLI::App& command, CaptureImportArgs& args);

/// Reads what engines said of log-probabilities and writes it as one capture. Exit status: 0, 4 for input
/// that breaks a rule, 64 usage, 74 input or output.
[[nodiscard]] int capture_import(const CaptureImportArgs& args);

}  // namespace driftgate::cli
