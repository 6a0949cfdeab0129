#include "daemon/route/control/spool.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/daemon/route/temporary_folder.hpp"

using namespace driftgate::route;
using driftgate::schema::ErrorCode;

namespace {

std::vector<std::string> lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> found;
  for (std::string line; std::getline(file, line);) found.push_back(line);
  return found;
}

}  // namespace

TEST_CASE("a stage's lines are in its file at once, for its owner only") {
  const TemporaryFolder folder;
  Spool spool(folder.at("spool"), 1'000);
  REQUIRE(spool.prepare());
  CHECK(spool.path("p/shadow/1").error().code == ErrorCode::not_found);
  REQUIRE(spool.append("p/shadow/1", "one"));
  REQUIRE(spool.append("p/shadow/1", "two"));
  REQUIRE(spool.append("q/shadow/1", "other"));
  const auto path = spool.path("p/shadow/1");
  REQUIRE(path);
  CHECK(*path == folder.at("spool/p_shadow_1.jsonl"));
  CHECK(lines(*path) == std::vector<std::string>{"one", "two"});
  struct stat status {};
  REQUIRE(::stat(path->c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("the cap holds over all stages and over restarts, and dropping gives room") {
  const TemporaryFolder folder;
  {
    Spool spool(folder.at("spool"), 10);
    REQUIRE(spool.prepare());
    REQUIRE(spool.append("a", "1234"));
    REQUIRE(spool.append("b", "1234"));
    CHECK(spool.append("a", "5").error().code == ErrorCode::limit_exceeded);
  }
  Spool again(folder.at("spool"), 10);
  REQUIRE(again.prepare());
  CHECK_FALSE(again.append("a", "5"));
  REQUIRE(again.drop("b"));
  CHECK(again.append("a", "5"));
}

TEST_CASE("a dropped stage stays dropped") {
  const TemporaryFolder folder;
  Spool spool(folder.at("spool"), 1'000);
  REQUIRE(spool.prepare());
  REQUIRE(spool.append("a", "x"));
  REQUIRE(spool.drop("a"));
  REQUIRE(spool.drop("a"));
  CHECK(spool.append("a", "late").error().code == ErrorCode::not_found);
  CHECK_FALSE(spool.path("a"));
}

TEST_CASE("a stage key cannot leave the folder") {
  const TemporaryFolder folder;
  Spool spool(folder.at("spool"), 1'000);
  REQUIRE(spool.prepare());
  for (const char* key : {"", "../x", "a/../../x", ".x"}) {
    CHECK(spool.append(key, "x").error().code == ErrorCode::invalid_argument);
    CHECK_FALSE(spool.drop(key));
  }
}
