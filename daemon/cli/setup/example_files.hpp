#pragma once

#include <filesystem>
#include <string>

#include "schema/error.hpp"

namespace driftgate::cli {

/// Where an example of the package, or of the source tree, lies.
struct ExampleFiles {
  std::filesystem::path folder;    ///< with model/ and data/
  std::filesystem::path program;   ///< tinylm
  std::filesystem::path contract;  ///< copied into working folders
};

/// Looks for an example in DRIFTGATE_SHARE, in the package that the program `executable` belongs to
/// (PREFIX/bin/driftgate, PREFIX/share/driftgate), and in the source tree above it; its program is
/// DRIFTGATE_TINYLM where that is set. `invalid_argument` for a name that is no example, `not_found` where
/// none lies.
[[nodiscard]] schema::Result<ExampleFiles> find_example(const std::string& name,
                                                        const std::filesystem::path& executable);

/// The program that runs.
[[nodiscard]] std::filesystem::path own_executable();

}  // namespace driftgate::cli
