#pragma once

#include <string>

namespace CLI {
class App;
}

namespace driftgate::cli {

/// What `driftgate capture digest` was asked for.
struct CaptureDigestArgs {
  std::string checkpoint;  ///< folder of the weights; "": not asked
  std::string corpus;      ///< file; "": not asked
  bool json = false;
};

/// Adds the command's options.
void describe_capture_digest(CLI::App& command, CaptureDigestArgs& args);

/// Prints the metadata that captures of a checkpoint, on a corpus, must state: `checkpoint.digest` and
/// `corpus.digest`. Exit status: 0, 64 when neither is named or the folder cannot be a checkpoint, 74 input.
[[nodiscard]] int capture_digest_command(const CaptureDigestArgs& args);

}  // namespace driftgate::cli
