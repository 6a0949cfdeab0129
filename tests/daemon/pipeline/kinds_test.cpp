#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "daemon/auth/tokens.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/pipeline/people/redact.hpp"
#include "daemon/pipeline/requests/recipe_admin.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;

namespace {

constexpr std::int64_t kHourMs = 3'600'000;
constexpr const char* kRequest =
    R"({"model":"m","engine":"new","contract":"test","captures":{)"
    R"("numeric":{"train":"train.safetensors","inf":"inf.safetensors","corpus":"corpus.jsonl"},)"
    R"("slice":{"train":"train.safetensors","inf":"inf.safetensors","corpus":"corpus.jsonl"}}})";

std::set<std::string> kinds_of(const Harness& h) {
  std::set<std::string> kinds;
  evidence::EntryFilter filter;
  filter.limit = evidence::kMaxPage;
  while (true) {
    const auto page =
        h.store->read([&](store::Reader& reader) { return evidence::query_entries(reader, filter); });
    REQUIRE(page.has_value());
    for (const auto& entry : page->entries)
      kinds.insert(nlohmann::json::parse(entry.bytes)["kind"].get<std::string>());
    if (!page->next) return kinds;
    filter.cursor = page->next;
  }
}

void grant_and_revoke(Harness& h) {
  const auto done = h.store->write("token", [&](store::Tx& tx) -> schema::Result<void> {
    auto issued =
        auth::issue_token(tx, {.name = "bob", .scopes = {auth::Scope::viewer}, .granted_by = "admin"},
                          auth::random_secret(), h.clock.now_us_);
    if (!issued) return std::unexpected(issued.error());
    return auth::revoke_token(tx, issued->info.id, "admin", h.clock.now_us_);
  });
  REQUIRE(done.has_value());
}

/// One promotion that is waived past its first stage and serves; then it is rolled back and redacted.
void whole_life(Harness& h) {
  h.behaviour.numeric_tv = 0.1;  // the limit
  h.behaviour.numeric_spread = 0.09;
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"inconclusive"}) == "inconclusive");
  for (const char* who : {"anna", "bob"}) {
    const auto waiver = h.view(id)["waiver"];
    REQUIRE(h.pipeline->waive(who, id, "numerical.tv", waiver["evidence_digest"], "looked").has_value());
  }
  const auto early = pipeline::redact_promotion(*h.store, "olga", id, "a user asked", h.clock.now_us_);
  REQUIRE_FALSE(early.has_value());
  CHECK(early.error().code == ErrorCode::conflict);
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  REQUIRE(h.pipeline->rollback("olga", id, "second thoughts").has_value());
  REQUIRE(h.pipeline->lift_hold("olga", "m", "understood").has_value());
  REQUIRE(pipeline::redact_promotion(*h.store, "olga", id, "a user asked", h.clock.now_us_).has_value());
  const auto again = pipeline::redact_promotion(*h.store, "olga", id, "twice", h.clock.now_us_);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().code == ErrorCode::conflict);
  const auto said = h.entries(id, "evidence_redacted");
  REQUIRE(said.size() == 1);
  CHECK(said[0]["actor"] == "olga");
  std::set<std::string> what;
  for (const auto& item : said[0]["body"]["destroyed"]) what.insert(item["what"]);
  CHECK(what == std::set<std::string>{"canary_memory", "live_series", "shadow_pairs"});
  CHECK(h.pipeline->report(id, "shadow-runtime").has_value());  // the figures stay
}

}  // namespace

// engine_registered needs an engine to probe, evidence_read a reader: tests/integration and tests/daemon/api
// walk those two, block_set and block_lifted the ladder's tests, the kinds of guards the guard's, key_rotated
// and epoch_changed the log's own.
TEST_CASE("each kind of entry is written by the code path that does the thing") {
  Harness h;
  h.set_up();
  grant_and_revoke(h);
  whole_life(h);
  auto schedules = pipeline::stored_schedules(*h.store, [&h] { return h.clock.now_us_; });
  REQUIRE(schedules->create("sam", {.name = "hourly", .cron = "0 * * * *", .request = kRequest}).has_value());
  REQUIRE(schedules->create("sam", {.name = "daily", .cron = "0 3 * * *", .request = kRequest}).has_value());
  REQUIRE(schedules->remove("sam", "daily", 1).has_value());
  const auto recipes = pipeline::stored_recipes(*h.store, [&h] { return h.clock.now_us_; });
  REQUIRE(recipes->set("sam", "m", R"({"contract":"test"})", {}).has_value());
  REQUIRE(recipes->remove("sam", "m", 1).has_value());
  const std::int64_t to_the_hour_ms = kHourMs - h.clock.now_us_ / 1'000 % kHourMs;
  h.clock.advance_ms(to_the_hour_ms);
  h.pipeline->tick();  // fires
  h.clock.advance_ms(kHourMs);
  h.clock.offset_us_ = 3'600'000'000;
  h.pipeline->tick();  // skips: the first one still runs, or misses when it has ended
  route::RouterLoss loss;
  loss.why = "killed";
  loss.router_id = "router-1";
  h.pipeline->router_replaced(loss, {});
  h.driver.open_breaker("http://127.0.0.1:1", h.clock.now_us_);
  h.clock.advance_ms(1'000);
  h.pipeline->tick();
  const auto written = kinds_of(h);
  for (const char* kind : {"contract_registered",
                           "kernel_registered",
                           "model_bootstrapped",
                           "promotion_requested",
                           "state_changed",
                           "job_finished",
                           "verdict_reached",
                           "route_desired",
                           "route_applied",
                           "escalation_decided",
                           "approval_given",
                           "waiver_given",
                           "hold_set",
                           "hold_lifted",
                           "schedule_fired",
                           "schedule_skipped",
                           "schedule_set",
                           "schedule_deleted",
                           "recipe_set",
                           "recipe_deleted",
                           "token_granted",
                           "token_revoked",
                           "evidence_redacted",
                           "daemon_started",
                           "clock_stepped",
                           "router_replaced",
                           "breaker_changed"}) {
    CAPTURE(kind);
    CHECK(written.contains(kind));
  }
}
