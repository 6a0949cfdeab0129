#include "daemon/cli/setup/example_files.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <vector>

namespace driftgate::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExample = "tinylm";

fs::path path_in(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

/// An example as it is installed below SHARE, with its programs in SHARE/../../lib/driftgate.
ExampleFiles installed_in(const fs::path& share) {
  const fs::path folder = share / "examples" / kExample;
  return {folder, share.parent_path().parent_path() / "lib" / "driftgate" / kExample,
          folder / "contract.yaml"};
}

/// An example as the source tree has it, with the program in a build folder below the tree.
ExampleFiles in_source(const fs::path& tree, const fs::path& build) {
  return {tree / "examples" / kExample, build / "examples" / kExample / kExample,
          tree / "configs" / "demo" / "contract.yaml"};
}

bool is_there(const ExampleFiles& files) {
  std::error_code error;
  return fs::is_regular_file(files.folder / "model" / "config.json", error) &&
         fs::is_regular_file(files.contract, error);
}

}  // namespace

fs::path own_executable() {
  std::error_code error;
  auto path = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path("driftgate") : path;
}

schema::Result<ExampleFiles> find_example(const std::string& name, const fs::path& executable) {
  if (name != kExample)
    return schema::fail(schema::ErrorCode::invalid_argument,
                        fmt::format("'{}' is not an example; there is one: {}", name, kExample));
  std::vector<ExampleFiles> places;
  const fs::path share = path_in("DRIFTGATE_SHARE");
  if (!share.empty()) places.push_back(installed_in(fs::absolute(share).lexically_normal()));
  const fs::path folder = executable.parent_path();
  places.push_back(installed_in(folder.parent_path() / "share" / "driftgate"));
  // BUILD/daemon/app/driftgate, with BUILD somewhere below the source tree.
  const fs::path build = folder.parent_path().parent_path();
  for (fs::path tree = build; tree.has_relative_path(); tree = tree.parent_path())
    places.push_back(in_source(tree, build));
  for (auto& files : places) {
    if (!is_there(files)) continue;
    const fs::path program = path_in("DRIFTGATE_TINYLM");
    if (!program.empty()) files.program = fs::absolute(program);
    std::error_code error;
    if (fs::is_regular_file(files.program, error)) return files;
    return schema::fail(
        schema::ErrorCode::not_found,
        fmt::format("the example {} is in {}, but its program {} is not there: build the target "
                    "'{}', or set DRIFTGATE_TINYLM to it",
                    name, files.folder.string(), files.program.string(), kExample));
  }
  return schema::fail(schema::ErrorCode::not_found,
                      fmt::format("the example {} is not installed beside {}: install the package, or set "
                                  "DRIFTGATE_SHARE to the folder that has examples/{}",
                                  name, executable.string(), name));
}

}  // namespace driftgate::cli
