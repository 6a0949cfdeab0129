#include "daemon/cli/output_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace driftgate::cli {

namespace {

namespace fs = std::filesystem;
using schema::ErrorCode;
using schema::Result;

/// True also for a link and its target, and for files that do not exist yet.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code none;
  if (fs::equivalent(a, b, none)) return true;
  return fs::weakly_canonical(a, none) == fs::weakly_canonical(b, none);
}

/// Whether `path` is `input` or, where that is a folder of captures, one of the files that are read there.
bool is_read(const std::string& path, const std::string& input) {
  std::error_code none;
  if (!fs::is_directory(input, none)) return same_file(path, input);
  const fs::path parent = fs::absolute(path, none).parent_path();
  return fs::equivalent(parent, input, none) && fs::path(path).extension() == ".safetensors";
}

Result<void> check_writable(const OutputFile& output) {
  const auto refuse = [&output](const std::string& why) {
    return schema::fail(ErrorCode::io,
                        fmt::format("cannot write {} ({}): {}", output.path, output.option, why));
  };
  std::error_code none;
  const fs::file_status status = fs::status(output.path, none);
  if (fs::is_directory(status)) return refuse("it is a folder");
  if (fs::exists(status)) {
    if (output.renamed_into && !fs::is_regular_file(status)) return refuse("it is not a regular file");
    return ::access(output.path.c_str(), W_OK) == 0 ? Result<void>{} : refuse(std::strerror(errno));
  }
  const fs::path parent = fs::absolute(output.path, none).parent_path();
  if (!fs::is_directory(parent, none)) return refuse("no such folder: " + parent.string());
  if (::access(parent.c_str(), W_OK | X_OK) != 0) return refuse(std::strerror(errno));
  return {};
}

}  // namespace

Result<void> check_outputs(const std::vector<OutputFile>& outputs, const std::vector<std::string>& inputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    if (output->path.empty()) continue;
    if (output->path == "-") {
      return schema::fail(ErrorCode::invalid_argument,
                          output->option + " writes to a file and not to standard output (-)");
    }
    for (const std::string& input : inputs) {
      if (input.empty() || !is_read(output->path, input)) continue;
      return schema::fail(ErrorCode::invalid_argument,
                          fmt::format("{} {} is one of the files that are read ({}); choose another name",
                                      output->option, output->path, input));
    }
    for (auto other = outputs.begin(); other != output; ++other) {
      if (other->path.empty() || !same_file(other->path, output->path)) continue;
      return schema::fail(
          ErrorCode::invalid_argument,
          fmt::format("{} and {} name the same file, {}", other->option, output->option, output->path));
    }
    TRY(check_writable(*output));
  }
  return {};
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return schema::fail(ErrorCode::io, "cannot write " + path);
  return {};
}

}  // namespace driftgate::cli
