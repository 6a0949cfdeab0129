#pragma once

#include <string>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::cli {

/// A file that a command will write, and the option that named it.
struct OutputFile {
  std::string option;
  std::string path;  ///< empty: not asked for
  bool renamed_into =
      false;  ///< written beside itself and renamed, so that only a regular file can be replaced
};

/// Looks at outputs before the work that fills them, so that hours are not lost to a misspelt folder and no
/// input is overwritten. `inputs` are files and folders; empty ones are left out. Errors: `invalid_argument`
/// for an output that is an input, a file in an input folder, another output or "-"; `io` for a folder, a
/// parent that is none, and what can not be written.
[[nodiscard]] schema::Result<void> check_outputs(const std::vector<OutputFile>& outputs,
                                                 const std::vector<std::string>& inputs);

}  // namespace driftgate::cli
