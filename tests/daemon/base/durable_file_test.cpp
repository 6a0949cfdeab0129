#include "daemon/base/durable_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "daemon/base/unique_fd.hpp"

namespace fs = std::filesystem;
using driftgate::base::IfPresent;
using driftgate::base::replace_file;
using driftgate::base::sync_folder;
using driftgate::base::UniqueFd;
using driftgate::base::write_all;
using driftgate::base::write_file_durably;
using driftgate::schema::ErrorCode;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "driftgate_base_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] fs::path operator/(const char* name) const { return path_ / name; }
  [[nodiscard]] const fs::path& path() const { return path_; }
  [[nodiscard]] long files() const { return std::distance(fs::directory_iterator(path_), {}); }

 private:
  fs::path path_;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

}  // namespace

TEST_CASE("a durable write leaves the whole file, its mode and nothing else") {
  const Folder folder;
  const std::string large(3 << 20, 'x');
  const mode_t before = ::umask(077);
  CHECK(write_file_durably(folder / "a", large, 0644));
  ::umask(before);
  CHECK(bytes_of(folder / "a") == large);
  CHECK(mode_of(folder / "a") == 0644);
  CHECK(write_file_durably(folder / "a", std::string("a\0b", 3), 0600));
  CHECK(bytes_of(folder / "a") == std::string("a\0b", 3));
  CHECK(mode_of(folder / "a") == 0600);
  CHECK(replace_file(folder / "a", "last", 0600));
  CHECK(bytes_of(folder / "a") == "last");
  CHECK(folder.files() == 1);
}

TEST_CASE("a durable write that must not replace refuses an existing file and leaves it as it is") {
  const Folder folder;
  CHECK(write_file_durably(folder / "a", "first", 0600, IfPresent::refuse));
  const auto refused = write_file_durably(folder / "a", "second", 0600, IfPresent::refuse);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::already_exists);
  CHECK(refused.error().describe().contains((folder / "a").string()));
  CHECK(bytes_of(folder / "a") == "first");
  CHECK(folder.files() == 1);
}

TEST_CASE("a durable write that fails names the path and leaves nothing behind") {
  const Folder folder;
  const auto nowhere = write_file_durably(folder / "missing/a", "x", 0600);
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().code == ErrorCode::io);
  CHECK(nowhere.error().describe().contains((folder / "missing/a").string()));
  fs::create_directory(folder / "b");
  CHECK_FALSE(write_file_durably(folder / "b", "x", 0600));  // a folder has the name
  CHECK_FALSE(replace_file(folder / "b", "x", 0600));
  CHECK(folder.files() == 1);
  CHECK_FALSE(sync_folder(folder / "missing"));
  CHECK(sync_folder(folder.path()));
  CHECK(sync_folder({}));
}

TEST_CASE("a temporary file that is a link is replaced, not followed") {
  const Folder folder;
  CHECK(write_file_durably(folder / "elsewhere", "kept", 0600));
  fs::create_symlink(folder / "elsewhere", folder / "a.tmp");
  CHECK(write_file_durably(folder / "a", "x", 0600));
  CHECK(bytes_of(folder / "elsewhere") == "kept");
  CHECK(bytes_of(folder / "a") == "x");
  CHECK_FALSE(fs::is_symlink(folder / "a"));
}

TEST_CASE("a secret is not written into a temporary file that was there") {
  const Folder folder;
  std::ofstream(folder / "a.tmp") << "";
  const UniqueFd planted(::open((folder / "a.tmp").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(planted);
  CHECK(write_file_durably(folder / "a", "secret", 0600, IfPresent::refuse));
  char byte = 0;
  CHECK(::read(planted.get(), &byte, 1) == 0);
  CHECK(bytes_of(folder / "a") == "secret");
  CHECK(folder.files() == 1);
}

TEST_CASE("a full disk is storage_full") {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (!full) return;
  REQUIRE_FALSE(write_all(full.get(), "x"));
  CHECK(driftgate::base::file_failure("write", "/dev/full").error().code == ErrorCode::storage_full);
}
