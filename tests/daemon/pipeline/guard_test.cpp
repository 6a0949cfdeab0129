#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/store/outbox.hpp"
#include "daemon/store/promotions/guards.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using nlohmann::json;

namespace {

constexpr const char* kOld = "http://127.0.0.1:1";
constexpr const char* kNew = "http://127.0.0.1:2";

/// The contract with a guard: `members` of it, and a policy beside the defaults.
void use_guard(Harness& h, const std::string& members, const std::string& policy = {}) {
  const std::string before = "escalation:\n  defaults: {hard: rollback, soft: freeze}";
  const auto at = h.contract.find(before);
  REQUIRE(at != std::string::npos);
  const std::string chosen = policy.empty() ? "  defaults: {hard: rollback, soft: freeze}" : policy;
  h.contract.replace(at, before.size(), "guard: {" + members + "}\nescalation:\n" + chosen);
}

void add_fallback_kernel(Harness& h) {
  const std::string from = "inf: {ref: k-inf}}";
  const auto at = h.contract.find(from);
  REQUIRE(at != std::string::npos);
  h.contract.replace(at, from.size(), "inf: {ref: k-inf}, fallback: {ref: k-safe}}");
}

/// A promotion that succeeded; its id.
std::string promoted(Harness& h, const std::string& engine = "new") {
  const auto id = h.request(engine);
  REQUIRE(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
  return id;
}

template <typename Done>
bool seconds_until(Harness& h, Done done, int limit = 200) {
  for (int i = 0; i < limit && !done(); ++i) h.second();
  return done();
}

const route::ModelRoute& route_of(const Harness& h) {
  return h.driver.routes.at("m").route;
}

std::string serving(const Harness& h) {
  return route_of(h).incumbent.url;
}

void fail_a_third(Harness& h) {
  h.driver.incumbent_fails = [](std::uint64_t order) { return order % 3 == 0; };
}

json guard_of(const Harness& h) {
  return h.model()["guard"];
}

/// Engines that answer each prompt in a way of their own, and tell their version.
void answer_prompts(Harness& h) {
  std::ofstream corpus(h.folder / "captures" / "corpus.jsonl");
  for (int i = 0; i < 40; ++i) corpus << "{\"sequence\": " << i << ", \"text\": \"prompt " << i << "\"}\n";
  h.answers = [](const std::string&, const std::string& prompt) -> schema::Result<jobs::GoldenAnswer> {
    const double own = -static_cast<double>(prompt.size()) / 100;
    return jobs::GoldenAnswer{{{"a", "b"}, {own, own - 0.25}}, 20};
  };
  h.identities[kOld] = {{"version.version", "1"}, {"models.kernel", "k-train"}};
  h.identities[kNew] = {{"version.version", "1"}, {"models.kernel", "k-inf"}};
}

void answer_otherwise(Harness& h, const std::string& url, double shift) {
  h.answers = [before = h.answers, url, shift](
                  const std::string& at, const std::string& prompt) -> schema::Result<jobs::GoldenAnswer> {
    auto answer = before(at, prompt);
    if (answer && at == url) answer->answer.logprobs[0] += shift;
    return answer;
  };
}

}  // namespace

TEST_CASE("a promotion that succeeds arms a guard, and one whose contract has none does not") {
  Harness h;
  use_guard(h, "probes: {prompts: 0}");
  h.set_up();
  const auto id = promoted(h);
  const auto guard = guard_of(h);
  REQUIRE(guard.is_object());
  CHECK(guard["armed"] == true);
  CHECK(guard["promotion"] == id);
  CHECK(guard["version"] == h.model()["incumbent"]["version"]);
  REQUIRE(guard["watches"].size() == 1);
  CHECK(guard["watches"][0]["clause"] == "runtime.errors");
  CHECK(guard["probes"].is_null());
  const auto armed = h.entries("", "guard_armed");
  REQUIRE(armed.size() == 1);
  CHECK(armed[0]["subject"]["model"] == "m");
  CHECK_FALSE(armed[0]["subject"].contains("promotion"));
  CHECK(armed[0]["body"]["promotion"] == id);

  Harness without;
  without.set_up();
  promoted(without);
  CHECK(guard_of(without).is_null());
  CHECK(without.entries("", "guard_armed").empty());
}

TEST_CASE("traffic that goes on as promoted raises no alarm, and the counts survive a restart") {
  Harness h;
  use_guard(h, "probes: {prompts: 0}");
  h.set_up();
  promoted(h);
  for (int i = 0; i < 60; ++i) h.second();
  const auto before = guard_of(h);
  CHECK(before["watches"][0]["seen"] == 12'000);
  CHECK(before["watches"][0]["events"] == 0);
  CHECK(h.entries("", "guard_alarmed").empty());
  h.restart();
  CHECK(guard_of(h)["watches"] == before["watches"]);
  for (int i = 0; i < 60; ++i) h.second();
  CHECK(guard_of(h)["watches"][0]["seen"] == 24'000);
  CHECK(h.entries("", "guard_alarmed").empty());
}

TEST_CASE(
    "failures beyond what was promoted bring the version before back, in one transaction with their "
    "evidence") {
  Harness h;
  use_guard(h, "probes: {prompts: 0}");
  h.webhooks = {{"ops", {"guard.alarm", "model.held"}}};
  h.set_up();
  const auto id = promoted(h);
  REQUIRE(serving(h) == kNew);
  fail_a_third(h);
  REQUIRE(seconds_until(h, [&] { return serving(h) == kOld; }));
  CHECK(h.view(id)["traffic"] == "reverted");
  CHECK(h.model()["hold"]["promotion"] == id);
  CHECK(h.model()["route"]["agree"] == true);
  const auto guard = guard_of(h);
  CHECK(guard["armed"] == false);
  CHECK(guard["alarms"] == 1);
  const auto alarms = h.entries("", "guard_alarmed");
  REQUIRE(alarms.size() == 1);
  CHECK(alarms[0]["body"]["what"] == "traffic");
  CHECK(alarms[0]["body"]["state"] == "raised");
  CHECK(alarms[0]["body"]["clause"] == "runtime.errors");
  CHECK(alarms[0]["body"]["ordered"] == "rollback");
  const auto decided = h.entries("", "guard_decided");
  REQUIRE(decided.size() == 1);
  CHECK(decided[0]["body"]["action"] == "rollback");
  REQUIRE(h.entries("", "guard_ended").size() == 1);
  const auto ended = h.entries("", "guard_ended")[0];
  CHECK(ended["body"]["guard"] == guard["id"]);
  // The decision, the route, the hold and the end of the guard are consecutive entries: one transaction.
  const auto routes = h.entries(id, "route_desired");
  const auto first = decided[0]["seq"].get<std::int64_t>();
  const auto last = ended["seq"].get<std::int64_t>();
  CHECK(routes.back()["seq"].get<std::int64_t>() > first);
  CHECK(routes.back()["seq"].get<std::int64_t>() < last);
  CHECK(last - first <= 4);
  const auto messages = h.store->read(
      [](store::Reader& reader) { return store::due_outbox(reader, "ops", std::int64_t{1} << 60, 100); });
  REQUIRE(messages.has_value());
  std::vector<std::string> types;
  for (const auto& message : *messages) types.push_back(message.type);
  CHECK(std::ranges::find(types, "guard.alarm") != types.end());
  CHECK(std::ranges::find(types, "model.held") != types.end());
}

TEST_CASE("a kill between the alarm and the rollback loses neither") {
  for (int seconds = 2; seconds < 90; seconds += 6) {
    CAPTURE(seconds);
    Harness h;
    use_guard(h, "probes: {prompts: 0}");
    h.set_up();
    promoted(h);
    fail_a_third(h);
    for (int i = 0; i < seconds; ++i) h.second();
    h.restart();
    REQUIRE(seconds_until(h, [&] { return serving(h) == kOld; }));
    CHECK(h.entries("", "guard_alarmed").size() == 1);
    CHECK(h.entries("", "guard_decided").size() == 1);
  }
}

TEST_CASE("a rollback whose record fails is tried again, and users stay on the version before meanwhile") {
  Harness h;
  use_guard(h, "probes: {prompts: 0}");
  h.set_up();
  promoted(h);
  fail_a_third(h);
  int failed = 0;
  h.committer->before = [&](std::string_view what) {
    if (what != "roll back" || failed == 2) return;
    ++failed;
    h.committer->fail_at = h.committer->count;
  };
  REQUIRE(seconds_until(h, [&] { return failed == 1; }));
  CHECK(serving(h) == kOld);
  CHECK(h.model()["hold"].is_null());
  CHECK(guard_of(h)["orders"]["pending"]["action"] == "rollback");
  h.second();
  CHECK(serving(h) == kOld);
  REQUIRE(seconds_until(h, [&] { return serving(h) == kOld && h.model()["hold"].is_object(); }));
  CHECK(failed == 2);
  CHECK(h.entries("", "guard_decided").size() == 1);
  CHECK(h.entries("", "guard_ended").size() == 1);
}

TEST_CASE("an alarm that only notifies changes nothing, and clears when the failures are gone") {
  Harness h;
  use_guard(h, "probes: {prompts: 0}",
            "  rules: [{match: runtime.errors, stage: guard, action: notify}]\n"
            "  defaults: {hard: rollback, soft: freeze}");
  h.set_up();
  promoted(h);
  fail_a_third(h);
  REQUIRE(seconds_until(h, [&] { return !h.entries("", "guard_alarmed").empty(); }));
  CHECK(serving(h) == kNew);
  CHECK(h.model()["hold"].is_null());
  CHECK(guard_of(h)["armed"] == true);
  CHECK(guard_of(h)["watches"][0]["alarming"] == true);
  h.driver.incumbent_fails = {};
  REQUIRE(seconds_until(
      h, [&] { return h.entries("", "guard_alarmed").size() == 2; }, 2'000));
  CHECK(h.entries("", "guard_alarmed")[1]["body"]["state"] == "cleared");
  CHECK(guard_of(h)["watches"][0]["alarming"] == false);
  CHECK(h.entries("", "guard_decided").empty());
}

TEST_CASE(
    "without a version before that can serve, the fallback kernel does; lifting the hold brings the traffic "
    "back") {
  Harness h;
  add_fallback_kernel(h);
  use_guard(
      h, "probes: {prompts: 0}",
      "  rules: [{match: runtime.errors, stage: guard, action: rollback}, {match: runtime.errors, stage: "
      "canary, action: fallback}]\n  defaults: {hard: rollback, soft: freeze}");
  h.set_up();
  h.add_engine("safe", "k-safe", 4);
  const auto id = promoted(h);
  h.unhealthy = {kOld};
  fail_a_third(h);
  REQUIRE(seconds_until(h, [&] { return route_of(h).all_to_fallback; }));
  CHECK(route_of(h).fallback->url == "http://127.0.0.1:4");
  CHECK(h.view(id)["traffic"] == "live");
  CHECK(h.model()["hold"].is_object());
  const auto decided = h.entries("", "guard_decided");
  REQUIRE(decided.size() == 1);
  CHECK(decided[0]["body"]["action"] == "fallback");
  REQUIRE(decided[0]["body"]["tried"].size() == 2);
  CHECK(decided[0]["body"]["tried"][0]["action"] == "rollback");
  CHECK(decided[0]["body"]["tried"][0]["possible"] == false);
  CHECK(guard_of(h)["orders"]["all_on_fallback"] == true);
  h.restart();
  CHECK(route_of(h).all_to_fallback);
  h.driver.incumbent_fails = {};
  REQUIRE(h.pipeline->lift_hold("olga", "m", "the disk was replaced").has_value());
  REQUIRE(seconds_until(
      h, [&] { return !route_of(h).all_to_fallback; }, 5));
  CHECK_FALSE(route_of(h).fallback.has_value());
  CHECK(guard_of(h)["orders"]["all_on_fallback"] == false);
  CHECK(guard_of(h)["watches"][0]["seen"].get<int>() <= 1'000);
}

TEST_CASE("where nothing else can serve, people are told and the model is held") {
  Harness h;
  use_guard(h, "probes: {prompts: 0}");
  h.set_up();
  promoted(h);
  h.unhealthy = {kOld};
  fail_a_third(h);
  REQUIRE(seconds_until(h, [&] { return h.model()["hold"].is_object(); }));
  CHECK(serving(h) == kNew);
  const auto decided = h.entries("", "guard_decided");
  REQUIRE(decided.size() == 1);
  CHECK(decided[0]["body"]["action"] == "hold");
  CHECK(decided[0]["body"]["tried"].size() == 3);
  CHECK(guard_of(h)["armed"] == true);
  for (int i = 0; i < 30; ++i) h.second();
  CHECK(h.entries("", "guard_decided").size() == 1);
}

TEST_CASE("a guard's rollback ends the promotion that was under way on its baseline") {
  Harness h;
  use_guard(h, "probes: {prompts: 0}");
  h.set_up();
  promoted(h);
  const auto next = h.request("newer");
  fail_a_third(h);
  REQUIRE(seconds_until(h, [&] { return serving(h) == kOld; }));
  for (int i = 0; i < 10; ++i) h.second();
  CHECK(h.state(next) == "aborted");
}

TEST_CASE("a guard ends when another version is promoted or a person rolls back") {
  Harness h;
  use_guard(h, "probes: {prompts: 0}");
  h.set_up();
  promoted(h);
  const auto first = guard_of(h)["id"];
  const auto second = promoted(h, "newer");
  CHECK(guard_of(h)["id"] != first);
  CHECK(guard_of(h)["promotion"] == second);
  CHECK(h.entries("", "guard_ended").size() == 1);
  REQUIRE(h.pipeline->rollback("olga", second, "second thoughts").has_value());
  CHECK(guard_of(h)["armed"] == false);
  CHECK(h.entries("", "guard_ended").size() == 2);
  for (int i = 0; i < 5; ++i) h.second();
  h.restart();
  CHECK(h.entries("", "guard_ended").size() == 2);
}

TEST_CASE("golden probes find a kernel that computes something else, and nothing while it is the same") {
  Harness h;
  answer_prompts(h);
  use_guard(h, "probes: {every: 1s, prompts: 16}, identity: {every: 10s}");
  h.set_up();
  promoted(h);
  REQUIRE(seconds_until(h, [&] { return guard_of(h)["probes"]["armed"] == true; }));
  CHECK(guard_of(h)["probes"]["prompts"] == 16);
  for (int i = 0; i < 100; ++i) h.second();
  CHECK(h.entries("", "guard_alarmed").empty());
  h.restart();
  CHECK(guard_of(h)["probes"]["armed"] == true);
  answer_otherwise(h, kNew, 1e-4);
  REQUIRE(seconds_until(
      h, [&] { return !h.entries("", "guard_alarmed").empty(); }, 40));
  const auto alarm = h.entries("", "guard_alarmed")[0];
  CHECK(alarm["body"]["what"] == "probes");
  CHECK(alarm["body"]["ordered"] == "notify");
  CHECK(serving(h) == kNew);
  CHECK(guard_of(h)["probes"]["alarming"] == true);
}

TEST_CASE(
    "probes may order a rollback, for which the version before must still answer its own golden prompts") {
  for (const bool changed : {false, true}) {
    CAPTURE(changed);
    Harness h;
    answer_prompts(h);
    use_guard(h, "probes: {every: 1s, prompts: 16, action: rollback}");
    h.set_up();
    promoted(h);
    REQUIRE(seconds_until(h, [&] { return guard_of(h)["probes"]["armed"] == true; }));
    promoted(h, "newer");
    REQUIRE(seconds_until(h, [&] { return guard_of(h)["probes"]["armed"] == true; }));
    answer_otherwise(h, "http://127.0.0.1:3", 0.1);
    if (changed) answer_otherwise(h, kNew, 0.1);
    REQUIRE(seconds_until(
        h, [&] { return h.model()["hold"].is_object(); }, 60));
    CHECK(serving(h) == (changed ? "http://127.0.0.1:3" : kNew));
    const auto decided = h.entries("", "guard_decided");
    REQUIRE(decided.size() == 1);
    CHECK(decided[0]["body"]["action"] == (changed ? "hold" : "rollback"));
    const auto reason = decided[0]["body"]["tried"][0]["reason"].get<std::string>();
    CHECK(reason.find(changed ? "0 of 8 answers" : "8 of 8 answers") != std::string::npos);
  }
}

TEST_CASE("looks that cannot be stored together are stored one by one") {
  Harness h;
  answer_prompts(h);
  use_guard(h, "probes: {every: 1s, prompts: 16}, identity: {every: 10s}");
  std::vector<std::string> commits;
  h.set_up();
  promoted(h);
  h.committer->before = [&](std::string_view what) {
    if (what == "guards" && commits.empty()) {
      h.committer->fail_code = schema::ErrorCode::conflict;
      h.committer->fail_at = h.committer->count;
    }
    if (what == "guards" || (what == "guard" && !commits.empty())) commits.emplace_back(what);
  };
  REQUIRE(seconds_until(h, [&] { return !commits.empty(); }));
  CHECK(commits == std::vector<std::string>{"guards", "guard"});
  h.restart();
  REQUIRE(seconds_until(h, [&] { return guard_of(h)["probes"]["armed"] == true; }));
}

TEST_CASE("probes stop for the day when their budget is spent") {
  Harness h;
  answer_prompts(h);
  use_guard(h, "probes: {every: 1s, prompts: 4, budget_tokens: 200}");
  h.set_up();
  promoted(h);
  for (int i = 0; i < 60; ++i) h.second();
  CHECK(guard_of(h)["probes"]["tokens_of_day"] == 200);
  CHECK(guard_of(h)["probes"]["asked"] == 10);
  h.clock.advance_ms(86'400'000);
  for (int i = 0; i < 30; ++i) h.second();
  CHECK(guard_of(h)["probes"]["asked"].get<int>() > 10);
}

TEST_CASE("an engine that cannot be probed is said to be so") {
  Harness no_logprobs;
  answer_prompts(no_logprobs);
  no_logprobs.abilities.logprobs_by = jobs::LogprobsBy::none;
  use_guard(no_logprobs, "probes: {every: 1s, prompts: 4}");
  no_logprobs.set_up();
  promoted(no_logprobs);
  for (int i = 0; i < 5; ++i) no_logprobs.second();
  CHECK(guard_of(no_logprobs)["probes"]["why_none"] == "engine new gives no log-probabilities");
  Harness no_texts;
  answer_prompts(no_texts);
  std::ofstream(no_texts.folder / "captures" / "corpus.jsonl") << "{\"sequence\": 0}\n";
  use_guard(no_texts, "probes: {every: 1s, prompts: 4}");
  no_texts.set_up();
  promoted(no_texts);
  for (int i = 0; i < 5; ++i) no_texts.second();
  CHECK(guard_of(no_texts)["probes"]["why_none"] ==
        "the promotion's corpus has no line with a prompt or a text");
}

TEST_CASE("an engine that becomes another one is told once, and again when it is back") {
  Harness h;
  answer_prompts(h);
  use_guard(h, "probes: {prompts: 0}, identity: {every: 2s}");
  h.set_up();
  promoted(h);
  for (int i = 0; i < 10; ++i) h.second();
  REQUIRE(guard_of(h)["identity"]["members"].is_object());
  CHECK(guard_of(h)["identity"]["members"]["models.kernel"] == "k-inf");
  h.identities[kNew]["version.version"] = "2";
  for (int i = 0; i < 20; ++i) h.second();
  auto alarms = h.entries("", "guard_alarmed");
  REQUIRE(alarms.size() == 1);
  CHECK(alarms[0]["body"]["what"] == "identity");
  CHECK(alarms[0]["body"]["reason"].get<std::string>().find(
            "version.version was \"1\" when it was promoted and is "
            "\"2\"") != std::string::npos);
  h.restart();
  for (int i = 0; i < 20; ++i) h.second();
  CHECK(h.entries("", "guard_alarmed").size() == 1);
  h.identities[kNew]["version.version"] = "1";
  for (int i = 0; i < 10; ++i) h.second();
  alarms = h.entries("", "guard_alarmed");
  REQUIRE(alarms.size() == 2);
  CHECK(alarms[1]["body"]["state"] == "cleared");
  CHECK(serving(h) == kNew);
}

TEST_CASE("another identity may order a rollback; an engine that cannot be asked is not another one") {
  Harness h;
  answer_prompts(h);
  use_guard(h, "probes: {prompts: 0}, identity: {every: 2s, action: rollback}");
  h.set_up();
  promoted(h);
  for (int i = 0; i < 10; ++i) h.second();
  const auto kept = h.identities[kNew];
  h.identities.erase(kNew);
  for (int i = 0; i < 20; ++i) h.second();
  CHECK(h.entries("", "guard_alarmed").empty());
  h.identities[kNew] = kept;
  h.identities[kNew].erase("models.kernel");
  REQUIRE(seconds_until(
      h, [&] { return serving(h) == kOld; }, 20));
  CHECK(h.model()["hold"].is_object());
}

TEST_CASE("what a member of an identity says at two looks in a row is what counts") {
  Harness h;
  answer_prompts(h);
  use_guard(h, "probes: {prompts: 0}, identity: {every: 1s}");
  h.set_up();
  promoted(h);
  for (int i = 0; i < 30; ++i) {
    h.identities[kNew]["server_info.uptime"] = std::to_string(i);
    h.second();
  }
  CHECK_FALSE(guard_of(h)["identity"]["members"].contains("server_info.uptime"));
  CHECK(h.entries("", "guard_alarmed").empty());
}
