#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "daemon/api/api.hpp"
#include "daemon/api/routes.hpp"
#include "fake_insight.hpp"
#include "fakes.hpp"

namespace driftgate::api::test {

/// The API over fakes, called without sockets. Each answer is checked against the OpenAPI document.
struct Fixture {
  FakeService service;
  FakeTokens tokens;
  FakeEvidence evidence;
  FakeIdempotency idempotency;
  FakeDesk desk;
  FakeSchedules schedules;
  FakeRecipes recipes;
  FakeInsight insight;
  std::int64_t now_us = 1'000'000;
  std::vector<ReadyCheck> checks{{"store", true, ""}};
  std::mutex log_mutex;
  std::vector<AccessRecord> log;
  Context context{service,
                  tokens,
                  evidence,
                  idempotency,
                  [this] { return now_us; },
                  [this] { return checks; },
                  [] { return std::string(); },
                  [this](const AccessRecord& record) {
                    const std::lock_guard lock(log_mutex);
                    log.push_back(record);
                  },
                  500,
                  1000,
                  &desk,
                  [](const std::string& name) {
                    return evidence::Backup{"/backups/" + name, 7, "a note"};
                  }};
  Api api{with(context, schedules, recipes, insight)};

  static Context& with(Context& context, pipeline::ScheduleAdmin& schedules, pipeline::RecipeAdmin& recipes,
                       pipeline::Insight& insight) {
    context.schedules = &schedules;
    context.recipes = &recipes;
    context.server = {"0.1.0", 7, false};
    context.settings = [] {
      return R"({"items":[{"name":"listen","value":"a","default":"b","text":"where","changed":true}]})";
    };
    context.insight = &insight;
    context.redact = [](const std::string&, const std::string&, const std::string&) {
      return schema::Result<void>{};
    };
    return context;
  }

  /// `scopes` such as "viewer,promoter"; empty: no token. A session is ended with the session of these
  /// scopes.
  net::Response call(const std::string& method, const std::string& target, const std::string& scopes,
                     const std::string& body = {}, const net::Headers& headers = {});
};

/// The path with values that the fakes know in place of its {…} parts.
std::string sample_path(const Route& route);
/// A body that the route accepts; empty for routes without one.
std::string sample_body(const Route& route);

/// The header's value or "".
std::string header_of(const net::Response& response, std::string_view name);

/// What the OpenAPI document has against this answer; empty when it fits. See conformance.cpp.
std::string nonconformity(const Route* route, const net::Response& response);

}  // namespace driftgate::api::test
