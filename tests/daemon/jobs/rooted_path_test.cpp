#include "daemon/jobs/rooted_path.hpp"

#include "tests/daemon/jobs/temp_folder.hpp"

using namespace driftgate::jobs;
using driftgate::jobs::testing::TempFolder;
using driftgate::schema::ErrorCode;

TEST_CASE("a path below a root opens, relative, absolute and as a file URI") {
  const TempFolder folder;
  const auto file = folder.file("root/a/b.txt", "x");
  const std::vector<std::string> roots{(folder.path / "root").string()};
  CHECK(resolve_below("a/b.txt", roots).value() == file);
  CHECK(resolve_below(file, roots).value() == file);
  CHECK(resolve_below("file://" + file, roots).value() == file);
}

TEST_CASE("a path that leaves the root or passes a symbolic link is forbidden") {
  const TempFolder folder;
  (void)folder.file("root/a/b.txt", "x");
  const auto outside = folder.file("outside.txt", "secret");
  std::filesystem::create_symlink(outside, folder.path / "root" / "link.txt");
  std::filesystem::create_directory_symlink(folder.path, folder.path / "root" / "up");
  const std::vector<std::string> roots{(folder.path / "root").string()};
  for (const auto& path :
       {std::string("../outside.txt"), outside, std::string("a/../../outside.txt"), std::string("link.txt"),
        std::string("up/outside.txt"), std::string("/etc/passwd"), (folder.path / "rooted").string()}) {
    const auto opened = open_below(path, roots);
    CAPTURE(path);
    REQUIRE_FALSE(opened.has_value());
    CHECK(opened.error().code == ErrorCode::forbidden);
  }
  CHECK(open_below("a/none.txt", roots).error().code == ErrorCode::not_found);
  CHECK(open_below(std::string(300, 'x'), roots).error().code == ErrorCode::not_found);
  CHECK(open_below("http://host/x", roots).error().code == ErrorCode::invalid_argument);
  CHECK(open_below("", roots).error().code == ErrorCode::invalid_argument);
  CHECK(open_below("a/b.txt", {}).error().code == ErrorCode::forbidden);
}

TEST_CASE("a file is read whole, within its limit, and only a regular one") {
  const TempFolder folder;
  const auto file = folder.file("root/a/b.txt", "four");
  const std::vector<std::string> roots{(folder.path / "root").string()};
  CHECK(read_below(file, roots, 4).value() == "four");
  CHECK(read_below(file, roots, 3).error().code == ErrorCode::limit_exceeded);
  CHECK(read_below("a", roots, 4).error().code == ErrorCode::invalid_argument);
  CHECK(read_below("../b.txt", roots, 4).error().code == ErrorCode::forbidden);
}
