#include "daemon/base/engine_access.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace driftgate;
using namespace driftgate::base;
using schema::ErrorCode;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "driftgate-access-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string at(const std::string& name) const { return path + "/" + name; }
  [[nodiscard]] std::string file(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    std::ofstream(at(name), std::ios::binary) << text;
    ::chmod(at(name).c_str(), mode);
    return at(name);
  }
  std::string path;
};

}  // namespace

TEST_CASE("a key is shown as a bearer token, or as the header that was named") {
  const Folder folder;
  EngineAccess access{.key_file = folder.file("key", "sk-1234\r\n")};
  auto key = read_key(access);
  REQUIRE(key);
  REQUIRE(*key);
  CHECK((*key)->name == "Authorization");
  CHECK((*key)->value == "Bearer sk-1234");
  access.key_header = "authorization";
  CHECK((*read_key(access))->value == "Bearer sk-1234");
  access.key_header = "X-Api-Key";
  key = read_key(access);
  REQUIRE(key);
  CHECK((*key)->name == "X-Api-Key");
  CHECK((*key)->value == "sk-1234");
  CHECK_FALSE(*read_key({}));
}

TEST_CASE("a key file that others may read, or that holds no key, is refused without a byte of it") {
  const Folder folder;
  struct Bad {
    std::string path;
    ErrorCode code;
  };
  const Bad bad[] = {{folder.file("group", "sk-secret", 0640), ErrorCode::forbidden},
                     {folder.file("all", "sk-secret", 0604), ErrorCode::forbidden},
                     {folder.file("empty", "\n"), ErrorCode::invalid_document},
                     {folder.file("two", "sk-secret one"), ErrorCode::invalid_document},
                     {folder.file("lines", "sk-secret\r\nX-Evil: 1"), ErrorCode::invalid_document},
                     {folder.file("bytes", "sk-secret\xff"), ErrorCode::invalid_document},
                     {folder.file("long", "sk-secret" + std::string(10'000, 'x')), ErrorCode::limit_exceeded},
                     {folder.at("none"), ErrorCode::io},
                     {folder.path, ErrorCode::io}};
  for (const auto& [path, code] : bad) {
    CAPTURE(path);
    const auto key = read_key({.key_file = path});
    REQUIRE_FALSE(key);
    CHECK(key.error().code == code);
    CHECK(key.error().describe().find("secret") == std::string::npos);
    CHECK(key.error().describe().find(path) != std::string::npos);
  }
  CHECK(read_key({.key_file = folder.file("owner", "sk-1", 0400)}));
}

TEST_CASE("what frames a message or is driftgate's own cannot be the header of a key") {
  for (const char* name : {"X-Api-Key", "api-key", "Authorization", "Ocp-Apim-Subscription-Key"})
    CHECK(check_key_header(name));
  for (const char* name : {"", "X Api", "X:Api", "X_Api_Key", "Host", "content-length", "Transfer-Encoding",
                           "Via", "Driftgate-Key", "X-K\r\nHost"})
    CHECK_FALSE(check_key_header(name));
}

TEST_CASE("a file is named below its folder, by links too as long as they stay there") {
  const Folder folder;
  (void)folder.file("key", "k");
  fs::create_directories(folder.at("a"));
  (void)folder.file("a/key", "k");
  fs::create_symlink("a", folder.at("inside"));
  fs::create_symlink("/etc", folder.at("outside"));
  for (const std::string name : {"key", "a/key", "inside/key"}) {
    CAPTURE(name);
    CHECK(file_below(folder.path, name).value_or("") == folder.at(name));
    CHECK(file_below(folder.path, folder.at(name)).value_or("") == folder.at(name));
    CHECK(file_below(folder.path + "/", folder.at(name)).value_or("") == folder.at(name));
  }
  for (const std::string& name :
       std::vector<std::string>{"", "../x", "a/../../etc/passwd", "/etc/passwd", "outside/passwd",
                                folder.path, folder.path + "x/key", folder.path + "/"}) {
    CAPTURE(name);
    const auto found = file_below(folder.path, name);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ErrorCode::forbidden);
  }
  CHECK(file_below(folder.path, "none").error().code == ErrorCode::not_found);
  CHECK(file_below(folder.at("nowhere"), "key").error().code == ErrorCode::not_found);
}
