#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/web/site.hpp"
#include "scripted_daemon.hpp"

using namespace driftgate;
using cli::test::ScriptedDaemon;
using nlohmann::json;

namespace {

/// What the doctor says of a daemon that answers to GET / as the site does.
json told_of(const web::Site& site) {
  ScriptedDaemon daemon;
  net::RequestHead head;
  head.method = "GET";
  head.path = "/";
  daemon.on("GET /healthz", R"({"status":"ok"})");
  daemon.on("GET /readyz", R"({"ready":true,"checks":[]})");
  daemon.on("GET /", site.answer(head).body);
  for (const char* list : {"engines?limit=500", "models?limit=500", "schedules?limit=500", "webhooks"})
    daemon.on(std::string("GET /v1/") + list, R"({"items":[],"next":null})");
  const auto ran = daemon.run({"doctor", "--json"});
  CHECK(ran.exit_code == 0);
  for (const auto& request : daemon.requests())
    if (request.path == "/") CHECK_FALSE(request.header("Authorization").has_value());
  return json::parse(ran.out);
}

}  // namespace

TEST_CASE("the doctor says that a daemon was built without its page, and why, as no finding") {
  const web::Site site({}, {.reason = R"(npm said "a < b" & 'c' &lt;)", .remedy = "repair npm"});
  const json told = told_of(site);
  CHECK(told["findings"].empty());
  const json expected{{"what", "page"},
                      {"why", R"(the daemon was built without it: npm said "a < b" & 'c' &lt;)"}};
  const auto& skipped = told["not_checked"];
  CHECK_MESSAGE(std::find(skipped.begin(), skipped.end(), expected) != skipped.end(), skipped.dump());
}

TEST_CASE("the doctor has nothing to say of a page that is there") {
  const std::array<web::File, 1> files{
      {{"/index.html", "text/html", "0123456789abcdef0123456789abcdef", "<p>page", {}, {}}}};
  const json told = told_of(web::Site(files));
  CHECK(told["not_checked"].dump().find("page") == std::string::npos);
  const auto& checked = told["checked"];
  CHECK_MESSAGE(std::find(checked.begin(), checked.end(), json("page")) != checked.end(), checked.dump());
}
