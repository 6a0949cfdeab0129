#include "daemon/route/table/state_file.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/daemon/route/sample_route.hpp"
#include "tests/daemon/route/temporary_folder.hpp"

using namespace driftgate::route;

TEST_CASE("routes are kept, replaced as a whole and readable by their owner only") {
  const TemporaryFolder folder;
  const auto path = folder.at("state");
  CHECK(load_state(path)->empty());
  auto route = sample_route();
  REQUIRE(save_state(path, {route}));
  route.candidate_bp = 77;
  REQUIRE(save_state(path, {route}));
  const auto back = load_state(path);
  REQUIRE(back);
  REQUIRE(back->size() == 1);
  CHECK(back->front() == route);
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK_FALSE(std::filesystem::exists(path + ".new"));
}

TEST_CASE("a state cut at any byte is corrupt, never half a state") {
  const TemporaryFolder folder;
  const auto path = folder.at("state");
  REQUIRE(save_state(path, {sample_route()}));
  std::ifstream file(path);
  const std::string whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(path, std::ios::trunc) << whole.substr(0, size);
    const auto cut = load_state(path);
    REQUIRE_FALSE(cut);
    CHECK(cut.error().code == driftgate::schema::ErrorCode::corrupt);
  }
}

TEST_CASE("a state that cannot be written says so") {
  const auto failed = save_state("/nonexistent/state", {sample_route()});
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message.find("/nonexistent") != std::string::npos);
}
