#include "daemon/app/settings.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

using driftgate::app::parse_settings;
using driftgate::app::Settings;
using driftgate::schema::ErrorCode;

namespace {

std::string faults(const std::string& yaml) {
  const auto settings = parse_settings(yaml, "f.yaml");
  REQUIRE_FALSE(settings);
  return settings.error().message;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("an empty file gives the defaults") {
  const auto settings = parse_settings("", "f.yaml");
  REQUIRE(settings);
  CHECK(settings->listen == "127.0.0.1:7433");
  CHECK(settings->router_window_ms == 5000);
}

TEST_CASE("values of every type are read") {
  const auto settings = parse_settings(
      "listen: 127.0.0.1:0\n"
      "log:\n  level: warn\n"
      "router:\n  window_ms: 1000\n"
      "roots: [/a, /b]\n"
      "adapters:\n  torch: [/usr/bin/python3, capture.py]\n"
      "engines:\n  public_hosts: true\n",
      "f.yaml");
  REQUIRE(settings);
  CHECK(settings->listen == "127.0.0.1:0");
  CHECK(settings->log_level == "warn");
  CHECK(settings->router_window_ms == 1000);
  CHECK(settings->roots == std::vector<std::string>{"/a", "/b"});
  CHECK(settings->adapters.at("torch").back() == "capture.py");
  CHECK(settings->engines_public_hosts);
}

TEST_CASE("the items of a list with choices are checked one by one") {
  const auto settings = parse_settings("slurm: {kinds: [drift, capture]}", "f.yaml");
  REQUIRE(settings);
  CHECK(settings->slurm_kinds == std::vector<std::string>{"drift", "capture"});
  CHECK(faults("slurm: {kinds: [drift, replay]}")
            .find("an item of 'slurm.kinds' is 'replay'; allowed: drift, ") != std::string::npos);
}

TEST_CASE("all faults are told at once, each with line and column") {
  const std::string message = faults(
      "listne: x\n"
      "log:\n  level: loud\n"
      "router:\n  window_ms: fast\n  lease_ms: 1\n  windwo_ms: 5\n"
      "roots: 3\n"
      "listen: a\nlisten: b\n"
      "adapters:\n  a: [relative]\n"
      "jobs: 7\n");
  CHECK(message.find("f.yaml:1:1: unknown key 'listne'; did you mean 'listen'?") != std::string::npos);
  CHECK(message.find("f.yaml:3:10: 'log.level' is 'loud'; allowed: debug, info, warn, error") !=
        std::string::npos);
  CHECK(message.find("f.yaml:5:14: 'router.window_ms' must be a whole number ms") != std::string::npos);
  CHECK(message.find("f.yaml:6:13: 'router.lease_ms' is 1; allowed: 1000 to 3600000 ms") !=
        std::string::npos);
  CHECK(message.find("f.yaml:7:3: unknown key 'router.windwo_ms'; did you mean 'router.window_ms'?") !=
        std::string::npos);
  CHECK(message.find("f.yaml:8:8: 'roots' must be a list") != std::string::npos);
  CHECK(message.find("f.yaml:10:1: 'listen' is given twice") != std::string::npos);
  CHECK(message.find("f.yaml:12:6: adapter 'a' must be a list whose first word") != std::string::npos);
  CHECK(message.find("f.yaml:13:7: 'jobs' is a section") != std::string::npos);
}

TEST_CASE("webhooks are read, and their faults told with the endpoint's name") {
  const auto settings = parse_settings(
      "webhooks:\n  endpoints:\n    ops: {url: \"http://hooks.example/x\", secret_file: /s, events: "
      "[promotion.*]}\n  allowed_hosts: [hooks.example]\n",
      "f.yaml");
  REQUIRE(settings);
  CHECK(settings->webhooks_endpoints.at("ops").url == "http://hooks.example/x");
  CHECK(settings->webhooks_endpoints.at("ops").secret_file == "/s");
  CHECK(settings->webhooks_endpoints.at("ops").events == std::vector<std::string>{"promotion.*"});
  const std::string message = faults(
      "webhooks:\n  endpoints:\n    a: {url: x}\n    b: {url: x, secret_file: /s, evnts: []}\n    c: 3\n");
  CHECK(message.find("webhook 'a' needs a url and a secret_file") != std::string::npos);
  CHECK(message.find("webhook 'b' has no 'evnts'") != std::string::npos);
  CHECK(message.find("webhook 'c' must be") != std::string::npos);
}

TEST_CASE("what is no YAML is told with its position") {
  CHECK(faults("a: [1\n").find("f.yaml:2:") != std::string::npos);
  CHECK(faults("- a\n").find("must be a mapping") != std::string::npos);
  CHECK(parse_settings(std::string(300 * 1024, '#'), "f.yaml").error().code == ErrorCode::limit_exceeded);
}

TEST_CASE("the documented file is current: configs/driftgate.yaml is what 'driftgate settings' prints") {
  CHECK(file_text("configs/driftgate.yaml") == driftgate::app::settings_yaml());
}

TEST_CASE("the reference page is current: docs/settings.md is what 'driftgate settings --markdown' prints") {
  CHECK(file_text("docs/settings.md") == driftgate::app::settings_markdown());
}

TEST_CASE("the settings in force are told with their defaults, and secrets by the paths of their files") {
  const auto settings = parse_settings(
      "listen: 127.0.0.1:0\nrouter:\n  window_ms: 5000\nroots: [/a]\nadapters:\n  torch: [/usr/bin/python3, "
      "x.py]\n"
      "webhooks:\n  endpoints:\n    ops: {url: \"http://hooks.example/x\", secret_file: /s, events: "
      "[promotion.*]}\n",
      "f.yaml");
  REQUIRE(settings);
  const auto told = nlohmann::json::parse(driftgate::app::settings_json(*settings));
  REQUIRE(told["items"].size() == driftgate::app::setting_specs().size());
  const auto item = [&](std::string_view name) {
    for (const auto& one : told["items"])
      if (one["name"] == name) return one;
    return nlohmann::json();
  };
  CHECK(item("listen")["value"] == "127.0.0.1:0");
  CHECK(item("listen")["default"] == "127.0.0.1:7433");
  CHECK(item("listen")["changed"] == true);
  CHECK(item("router.window_ms")["value"] == 5000);
  CHECK(item("router.window_ms")["changed"] == false);
  CHECK(item("http.session_s")["value"] == 43'200);
  CHECK(item("engines.public_hosts")["value"] == false);
  CHECK(item("roots")["value"] == nlohmann::json::array({"/a"}));
  CHECK(item("adapters")["value"]["torch"].size() == 2);
  CHECK(item("adapters")["default"] == nlohmann::json::object());
  CHECK(item("webhooks.endpoints")["value"]["ops"]["secret_file"] == "/s");
  CHECK(item("webhooks.endpoints")["changed"] == true);
  for (const auto& one : told["items"]) CHECK_FALSE(one["text"].get<std::string>().empty());
}

TEST_CASE("the documented file means the defaults") {
  const auto settings = parse_settings(driftgate::app::settings_yaml(), "configs/driftgate.yaml");
  REQUIRE(settings);
  const Settings defaults;
  for (const auto& spec : driftgate::app::setting_specs()) {
    CAPTURE(spec.key);
    std::visit([&](auto member) { CHECK(((*settings).*member == defaults.*member)); }, spec.target);
  }
}
