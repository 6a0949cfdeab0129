#include "daemon/route/haproxy/files.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "daemon/base/read_file.hpp"
#include "daemon/route/haproxy/config_text.hpp"
#include "tests/daemon/route/sample_route.hpp"
#include "tests/daemon/route/temporary_folder.hpp"

using namespace driftgate::route;
using namespace driftgate::route::haproxy;
using driftgate::schema::ErrorCode;

namespace {

RouterOptions options_in(const TemporaryFolder& folder) {
  RouterOptions options;
  options.haproxy_dir = folder.at("haproxy");
  options.haproxy_socket = folder.at("haproxy/admin.sock");
  options.haproxy_log = "127.0.0.1:7514";
  options.haproxy_bind = ":443 ssl crt /etc/haproxy/site.pem";
  options.haproxy_models = 2;
  return options;
}

std::string text_of(const std::string& path) {
  const auto text = driftgate::base::read_file(path);
  REQUIRE(text);
  return *text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

StartFiles opened(const RouterOptions& options) {
  auto files = StartFiles::open(options, "127.0.0.1:8081");
  REQUIRE(files);
  return std::move(*files);
}

void ignore(const std::string&, const driftgate::schema::Error&) {}

}  // namespace

TEST_CASE("HAProxy begins with the incumbents and without exposure of candidates") {
  const TemporaryFolder folder;
  const auto options = options_in(folder);
  auto files = opened(options);
  auto slots = Slots::load(files.files().slots(), 2);
  REQUIRE(slots);
  auto route = sample_route();
  route.candidate_bp = 5'000;
  route.slices = {{{{"language", "de"}}, 2'500, false}};
  route.pins = {{"ann", "candidate"}};
  REQUIRE(files.write(place_all({route}, *slots, ignore), *slots));
  CHECK(text_of(files.files().routes()) == "tiny 1.1r|driftgate_1|v1|v2|v0|0|99|0|-\n");
  CHECK(text_of(files.files().slices()).ends_with(" b0\n"));
  const auto config = text_of(files.files().config());
  CHECK(contains(config, "\n  bind :443 ssl crt /etc/haproxy/site.pem\n"));
  CHECK(contains(config, "\n  log 127.0.0.1:7514 len 4096 format raw local0\n"));
  CHECK(contains(config, "map(" + files.files().routes() + ")"));
  CHECK(contains(config, "map_reg(" + files.files().slices() + ")"));
  CHECK(contains(config,
                 "\n  server v1 127.0.0.1:1001 weight 1 pool-max-conn -1 pool-purge-delay 5s\n"
                 "  server v2 127.0.0.1:1002 weight 0 pool-max-conn -1 pool-purge-delay 5s\n"));
  CHECK(contains(config, "\nbackend driftgate_2 from driftgate\n"));
  CHECK_FALSE(contains(config, "driftgate_3"));
  CHECK(contains(config, "\n  server lease 127.0.0.1:8081 check "));
  CHECK(contains(config, files.secret()));
  CHECK(contains(config, haproxy_mark(files.secret())));
  CHECK_FALSE(contains(haproxy_mark(files.secret()), files.secret()));
  // Every name of the template was filled in.
  for (const char* name :
       {"@SOCKET@", "@USER@", "@BIND@", "@LOG@", "@SECRET@", "@ROUTER@", "@BACKEND@", "@SLICE@", "@MARK@",
        "@ROUTES@", "@SLICES@", "@BODY@", "@DEADLINE@", "@NAME@", "@LINE@"}) {
    CAPTURE(name);
    CHECK_FALSE(contains(config, name));
  }
}

TEST_CASE("the secret stays, and files are for their owner alone") {
  const TemporaryFolder folder;
  const auto options = options_in(folder);
  const auto secret = opened(options).secret();
  CHECK(secret.size() == 32);
  CHECK(opened(options).secret() == secret);
  const auto mode = std::filesystem::status(folder.at("haproxy/secret")).permissions();
  CHECK((mode & std::filesystem::perms::all) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("a model keeps its backend, and more models than backends are refused") {
  const TemporaryFolder folder;
  const auto path = folder.at("slots.json");
  auto slots = Slots::load(path, 2);
  REQUIRE(slots);
  CHECK(slots->backend_of("a").value() == "driftgate_1");
  CHECK(slots->backend_of("b").value() == "driftgate_2");
  CHECK(slots->backend_of("a").value() == "driftgate_1");
  const auto refused = slots->backend_of("c");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::limit_exceeded);
  CHECK(refused.error().message.find("haproxy.models") != std::string::npos);
  auto again = Slots::load(path, 3);
  REQUIRE(again);
  CHECK(again->backend_of("b").value() == "driftgate_2");
  CHECK(again->backend_of("c").value() == "driftgate_3");
}

TEST_CASE("paths and lines that would mean something else in a configuration are refused") {
  const TemporaryFolder folder;
  for (const char* path : {"relative", "/with blank", "/quote'", "/semi;colon", ""}) {
    CAPTURE(path);
    auto options = options_in(folder);
    options.haproxy_socket = path;
    CHECK_FALSE(StartFiles::open(options, "127.0.0.1:8081"));
  }
  for (const char* bind : {"", ":80\n  user root"}) {
    CAPTURE(bind);
    auto options = options_in(folder);
    options.haproxy_bind = bind;
    CHECK_FALSE(StartFiles::open(options, "127.0.0.1:8081"));
  }
}

TEST_CASE("a route that HAProxy cannot hold is left out of what it begins with") {
  const TemporaryFolder folder;
  auto files = opened(options_in(folder));
  auto slots = Slots::load(files.files().slots(), 2);
  REQUIRE(slots);
  auto bad = sample_route();
  bad.model = "bad name";
  std::string told;
  const auto placed =
      place_all({bad, sample_route()}, *slots,
                [&](const std::string& model, const driftgate::schema::Error&) { told += model; });
  CHECK(placed.size() == 1);
  CHECK(told == "bad name");
}

TEST_CASE("HAProxy reaches the router on this machine") {
  CHECK(router_address("127.0.0.1:0", 8'081).value() == "127.0.0.1:8081");
  CHECK(router_address("0.0.0.0:1", 8'081).value() == "127.0.0.1:8081");
  CHECK(router_address("[::]:1", 8'081).value() == "[::1]:8081");
  CHECK(router_address("[::1]:1", 8'081).value() == "[::1]:8081");
  CHECK_FALSE(router_address("nothing", 1));
}
