#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/api/preconditions.hpp"
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
    CHECK(change(method, path, "3") == 400);
    CHECK(change(method, path, "\"x\"") == 412);
    CHECK(change(method, path, "\"3\"") == good);
    CHECK(change(method, path, "*") == good);
    CHECK(change(method, path, "\"1\", \"3\"") == good);
    CHECK(change(method, path, "\"1\",\"2\"") == 412);
  }
}

TEST_CASE("a schedule with the name of a word of the API is reached by its name percent-encoded") {
  Fixture fixture;
  // The fake has no schedule of that name, which only getSchedule can say.
  CHECK(fixture.call("GET", "/v1/schedules/%72eport", "viewer").status == 404);
  CHECK(fixture.call("GET", "/v1/schedules/report", "viewer").status == 200);
  CHECK(fixture.call("GET", "/v1/schedules/%6eightly", "viewer").status == 200);
}

TEST_CASE("If-Match is * or a list of entity tags, compared strongly") {
  const auto read = [](const std::vector<std::string>& values) {
    driftgate::net::RequestHead head;
    for (const auto& value : values) head.headers.push_back({"If-Match", value});
    return if_match_of(head);
  };
  CHECK_FALSE(read({})->has_value());
  CHECK((*read({"*"}))->any);
  CHECK((*read({"\"a\""}))->tags == std::vector<std::string>{"\"a\""});
  CHECK((*read({"\"a,b\" ,, \"\",\"c\""}))->tags == std::vector<std::string>{"\"a,b\"", "\"\"", "\"c\""});
  CHECK((*read({"\"a\"", "\"b\""}))->tags == std::vector<std::string>{"\"a\"", "\"b\""});
  CHECK((*read({"W/\"3\", \"4\""}))->tags == std::vector<std::string>{"\"4\""});
  for (const char* value : {"", ",", "3", "\"3", "3\"", "*, \"3\"", "\"3\" \"4\"", "w/\"3\"", "\"a b\"", "W/3"})
    CHECK_MESSAGE(!read({value}), value);
  CHECK(holds({.any = true}, "\"7\""));
  CHECK(holds({.tags = {"\"6\"", "\"7\""}}, "\"7\""));
  CHECK_FALSE(holds({.tags = {"\"6\""}}, "\"7\""));
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
