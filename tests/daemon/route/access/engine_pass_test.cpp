#include "daemon/route/relay/engine_pass.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/daemon/net/certificates.hpp"
#include "tests/daemon/route/temporary_folder.hpp"

using namespace driftgate;
using namespace driftgate::route;
using driftgate::net::test::certificates;

namespace {

/// A file as an operator replaces one.
void put_file(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new", std::ios::binary) << text;
  ::chmod((path + ".new").c_str(), 0600);
  std::filesystem::rename(path + ".new", path);
}

}  // namespace

TEST_CASE(
    "a key that was replaced is in force with the next look, and a file that cannot be read changes "
    "nothing") {
  const TemporaryFolder folder;
  const auto path = folder.at("key");
  put_file(path, "sk-first\n");
  EnginePass pass("http://e:1", {.key_file = path}, false);
  CHECK(pass.state()->key_line == "Authorization: Bearer sk-first\r\n");
  const auto before = pass.state();
  pass.refresh();
  CHECK(pass.state() == before);
  put_file(path, "two words");
  pass.refresh();
  CHECK(pass.state() == before);
  std::filesystem::remove(path);
  pass.refresh();
  CHECK(pass.state() == before);
  put_file(path, "sk-second");
  pass.refresh();
  CHECK(pass.state()->key_line == "Authorization: Bearer sk-second\r\n");
  CHECK(before->key_line == "Authorization: Bearer sk-first\r\n");
}

TEST_CASE("an engine whose files were never read cannot be asked until they are") {
  const TemporaryFolder folder;
  const auto path = folder.at("key");
  EnginePass pass("http://e:1", {.key_file = path, .key_header = "X-Api-Key"}, false);
  CHECK_FALSE(pass.state()->usable);
  CHECK(pass.state()->key_line.empty());
  put_file(path, "sk-late");
  pass.refresh();
  CHECK(pass.state()->usable);
  CHECK(pass.state()->key_line == "X-Api-Key: sk-late\r\n");
}

TEST_CASE("connections stay usable under a new key, and not under other CAs") {
  const TemporaryFolder folder;
  const auto key = folder.at("key");
  const auto ca = folder.at("ca.pem");
  put_file(key, "sk-first");
  std::filesystem::copy_file(certificates().file("ca.pem"), ca);
  EnginePass pass("https://e:1", {.key_file = key, .ca_file = ca}, true);
  REQUIRE(pass.state()->usable);
  const auto trust = pass.state()->trust;
  REQUIRE(trust != nullptr);
  put_file(key, "sk-second");
  pass.refresh();
  CHECK(pass.state()->key_line == "Authorization: Bearer sk-second\r\n");
  CHECK(pass.state()->trust == trust);
  put_file(ca, "no certificate");
  pass.refresh();
  CHECK(pass.state()->trust == trust);
  std::filesystem::remove(ca);
  std::filesystem::copy_file(certificates().file("stranger.pem"), ca);
  put_file(key, "");
  pass.refresh();
  CHECK(pass.state()->trust == trust);  // all or nothing
  put_file(key, "sk-third");
  pass.refresh();
  CHECK(pass.state()->key_line == "Authorization: Bearer sk-third\r\n");
  CHECK(pass.state()->trust != trust);
}
