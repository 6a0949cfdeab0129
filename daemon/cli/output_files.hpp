#pragma once

#include <string>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::cli {

/// A file that a command will write, and the option that named it.
struct OutputFile {
  std::string option;
  std::string path;  ///< empty: not requested
  /// Written under another name and renamed, so that it can only replace a regular file.
  bool renamed_into = false;
};

/// Checks outputs before the work that produces them, so that hours are not lost to a misspelt folder and no
/// input is overwritten. `inputs` are files and folders; empty ones are left out. Errors: `invalid_argument`
/// for an output that is an input, a file in an input folder, another output or "-"; `io` for a folder, a
/// parent that is not a folder, and a file that cannot be written.
[[nodiscard]] schema::Result<void> check_outputs(const std::vector<OutputFile>& outputs,
                                                 const std::vector<std::string>& inputs);

/// Replaces what is in the file. `io` with its path.
[[nodiscard]] schema::Result<void> write_file(const std::string& path, const std::string& text);

}  // namespace driftgate::cli
