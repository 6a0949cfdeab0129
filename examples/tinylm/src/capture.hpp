#pragma once
/// Capture files, rollouts and calibration: the offline commands of a kernel.

#include <cstddef>
#include <cstdint>
#include <string>

#include "examples/tinylm/src/corpus.hpp"
#include "examples/tinylm/src/engine.hpp"

namespace tinylm {

struct CaptureOptions {
  std::string corpus, out;
  std::string like = "";       ///< a capture that selects the rows; empty: no such capture
  std::size_t positions = 16;  ///< scored tokens at the end of each sequence
  std::size_t batch = 1;       ///< sequences in one step
  bool hidden = false;         ///< hidden states before lm_head in place of logits
};

/// Scores a corpus by teacher forcing and writes the capture. Returns the number of rows.
Result<std::size_t> write_capture(Engine& engine, const std::string& checkpoint_digest,
                                  const CaptureOptions& options);

struct RolloutOptions {
  std::string prompts, out, capture;
  std::size_t max_tokens = 16;
  std::uint64_t seed = 1;
  std::size_t batch = 1;  ///< sequences that are continued together
  double top_p = 1;       ///< top-p of sampling; below 1 the capture holds the filtered logits
};

/// Samples a continuation of each prompt at temperature 1 and writes them as a corpus whose `token_source` is
/// the kernel, and the capture of the logits that were sampled from.
Result<std::size_t> write_rollouts(Engine& engine, const std::string& checkpoint_digest,
                                   const RolloutOptions& options);

/// Computes the per-channel maxima of the input of every layer over a corpus and writes them as a safetensors
/// file.
Result<void> write_calibration(Engine& engine, const std::string& corpus, const std::string& out);
Result<ActivationMaxima> read_calibration(const std::string& path);

/// The name of a kernel in captures and rollouts, such as "tinylm-int8".
std::string kernel_name(const Engine& engine);

}  // namespace tinylm
