#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "fixture.hpp"

using namespace driftgate::api;
using driftgate::api::test::Fixture;
using driftgate::api::test::header_of;

TEST_CASE("a schedule carries its revision as ETag, and a change must name the newest one") {
  Fixture fixture;
  CHECK(header_of(fixture.call("GET", "/v1/schedules/nightly", "viewer"), "etag") == "\"3\"");
  const auto change = [&](const std::string& method, const std::string& path, const std::string& tag) {
    driftgate::net::Headers headers{{"Accept", "*/*"}};
    if (!tag.empty()) headers.push_back({"If-Match", tag});
    const std::string body =
        method == "PUT" ? R"({"cron":"0 3 * * *","promotion":{"model":"m","engine":"e","contract":"c"}})"
                        : "";
    return fixture.call(method, "/v1/schedules/nightly" + path, "promoter,operator", body, headers).status;
  };
  for (const auto& [method, path, good] :
       {std::tuple{"PUT", "", 200}, std::tuple{"DELETE", "", 204}, std::tuple{"POST", "/pause", 200},
        std::tuple{"POST", "/resume", 200}}) {
    CAPTURE(method);
    CAPTURE(path);
    CHECK(change(method, path, "") == 428);
    CHECK(change(method, path, "\"2\"") == 412);
    CHECK(change(method, path, "*") == 412);
    CHECK(change(method, path, "3") == 412);
    CHECK(change(method, path, "\"x\"") == 412);
    CHECK(change(method, path, "\"3\"") == good);
  }
}

TEST_CASE("a schedule's faults are told with the pointer to them") {
  Fixture fixture;
  const auto pointer = [&](const std::string& body) {
    const auto response = fixture.call("POST", "/v1/schedules", "promoter", body);
    CHECK(response.status == 422);
    return nlohmann::json::parse(response.body)["errors"][0].value("pointer", "");
  };
  CHECK(pointer(R"({"name":"n","promotion":{"model":"m"}})") == "/cron");
  CHECK(pointer(R"({"name":"n","cron":"* * * * *"})") == "/promotion");
  CHECK(pointer(R"({"name":"n","cron":5,"promotion":{}})") == "/cron");
  CHECK(pointer(R"({"name":"n","cron":"* * * * *","promotion":{},"when":"now"})") == "/when");
  CHECK(pointer(R"({"name":"n","cron":"* * * * *","promotion":{},"grace_s":"1h"})") == "/grace_s");
}
