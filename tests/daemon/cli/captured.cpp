#include "captured.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "daemon/cli/command_line.hpp"

namespace driftgate::cli::test {
namespace {

/// Sends a stream into a file while it lives.
class Redirect {
 public:
  explicit Redirect(FILE* stream) : stream_(stream), saved_(::dup(::fileno(stream))), file_(std::tmpfile()) {
    REQUIRE(file_ != nullptr);
    std::fflush(stream_);
    ::dup2(::fileno(file_), ::fileno(stream_));
  }
  std::string end() {
    std::fflush(stream_);
    ::dup2(saved_, ::fileno(stream_));
    ::close(saved_);
    std::rewind(file_);
    std::string text;
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), file_)) > 0;)
      text.append(buffer.data(), n);
    std::fclose(file_);
    return text;
  }

 private:
  FILE* stream_;
  int saved_;
  FILE* file_;
};

}  // namespace

Ran run_captured(const std::vector<std::string>& words, const Deployment* deployment) {
  std::vector<const char*> argv{"driftgate"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  Hooks hooks;
  hooks.version = "test";
  if (deployment != nullptr)
    hooks.deployment = [deployment](const std::string&, const std::string&) { return *deployment; };
  Redirect out(stdout);
  Redirect err(stderr);
  Ran ran;
  ran.exit_code = run(static_cast<int>(argv.size()), argv.data(), hooks);
  ran.err = err.end();
  ran.out = out.end();
  return ran;
}

std::string file_with(const std::string& text) {
  struct Folder {
    Folder() : path((std::filesystem::temp_directory_path() / "driftgate-cli-XXXXXX").string()) {
      REQUIRE(::mkdtemp(path.data()) != nullptr);
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::string path;
    int files = 0;
  };
  static Folder folder;
  const std::string path = folder.path + "/" + std::to_string(++folder.files);
  std::ofstream(path) << text;
  return path;
}

}  // namespace driftgate::cli::test
