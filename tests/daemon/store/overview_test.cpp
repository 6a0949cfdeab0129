#include "daemon/store/promotions/overview.hpp"

#include <doctest/doctest.h>

#include "daemon/store/promotions/guards.hpp"
#include "daemon/store/promotions/of_many.hpp"
#include "tests/daemon/store/rows.hpp"

using namespace driftgate::store;
using namespace driftgate::store::testing;

namespace {

PromotionRow ended(const std::string& id, std::int64_t at_us) {
  auto row = promotion_row(id);
  row.state = PromotionState::rejected;
  row.ended_us = row.updated_us = at_us;
  return row;
}

VerdictRow verdict(const StageKey& key, const std::string& clause, const std::string& slice,
                   const std::string& found) {
  return {
      .stage = key, .clause = clause, .slice = slice, .verdict = found, .detail = "{}", .evidence_seq = 1};
}

ScheduleRow schedule(const std::string& name, const std::string& model) {
  return {.name = name,
          .cron = "0 2 * * *",
          .zone = "UTC",
          .model = model,
          .request = "{}",
          .misfire = "skip",
          .if_running = "skip",
          .owner = "ada",
          .next_us = 99};
}

ScheduleFireRow fire(const std::string& name, std::int64_t at_us) {
  return {.schedule = name, .fire_us = at_us, .outcome = "skipped", .why = "busy", .owner = "ada"};
}

const std::vector<std::string> kTiny{"tiny"};

}  // namespace

TEST_CASE("keys are one parameter, whatever characters they have") {
  CHECK(key_list({}) == "[]");
  CHECK(key_list(std::vector<std::string>{"pr-1", "a\"b\\c", "line\n"}) ==
        R"(["pr-1","a\"b\\c","line\u000a"])");
}

TEST_CASE_FIXTURE(StoreFixture, "what belongs to promotions is found for many at once") {
  const auto key = insert_running_stage(*store);
  const StageKey second{"pr-1", "statistical-slice", 1};
  write(*store, [&](Tx& tx) -> Result<void> {
    must(insert_stage_run(tx, {.key = second, .started_us = 30}));
    must(insert_promotion(tx, ended("pr-2", 5)));
    must(put_verdict(tx, verdict(key, "numerical.kl", "", "pass")));
    must(put_verdict(tx, verdict(key, "numerical.tv", "", "pass")));
    must(put_verdict(tx, verdict(second, "statistical.a", "language=de", "inconclusive")));
    return put_verdict(tx, verdict(second, "statistical.b", "", "violated"));
  });
  const std::vector<std::string> both{"pr-1", "pr-2", "pr-none"};
  read(*store, [&](Reader& reader) -> Result<void> {
    const auto runs = must(stage_runs_of(reader, both));
    REQUIRE(runs.size() == 2);
    CHECK(runs[0].key == key);
    CHECK(runs[1].key == second);
    const auto counts = must(verdict_counts_of(reader, both));
    CHECK(counts ==
          std::vector<VerdictCount>{{key, "pass", 2}, {second, "inconclusive", 1}, {second, "violated", 1}});
    const auto open = must(open_verdicts_of(reader, both));
    CHECK(open == std::vector<OpenVerdict>{{second, "statistical.a", "language=de", "inconclusive"},
                                           {second, "statistical.b", "", "violated"}});
    const auto undecided = must(undecided_of(reader, both));
    REQUIRE(undecided.size() == 1);
    CHECK(undecided[0].clause == "statistical.a");
    CHECK(undecided[0].detail == "{}");
    CHECK(must(holders_of(reader, kTiny)) == std::vector<Holder>{{"tiny", "pr-1"}});
    CHECK(must(versions_of(reader, std::vector<std::string>{"ve-b", "ve-none"})).size() == 1);
    CHECK(must(contracts_of(reader, std::vector<std::string>{"sha256:contract"})).at(0).name == "c");
    CHECK(must(models_of(reader, kTiny)).at(0).incumbent == "ve-a");
    CHECK(must(stage_runs_of(reader, {})).empty());
    return {};
  });
}

TEST_CASE_FIXTURE(StoreFixture, "a verdict that passes later is no open one any more") {
  const auto key = insert_running_stage(*store);
  const std::vector<std::string> ids{"pr-1"};
  for (const std::string found : {"inconclusive", "pass"}) {
    write(*store, [&](Tx& tx) { return put_verdict(tx, verdict(key, "numerical.kl", "", found)); });
    const auto open = read(*store, [&](Reader& reader) { return open_verdicts_of(reader, ids); });
    CHECK(open.empty() == (found == "pass"));
  }
}

TEST_CASE_FIXTURE(StoreFixture,
                  "of a model the overview has what is open, what ended last and its schedules") {
  insert_running_stage(*store);
  write(*store, [&](Tx& tx) -> Result<void> {
    must(insert_model(tx, {.name = "large", .incumbent = "ve-a"}));
    must(set_hold(tx, "large", "smells", "olga", 7));
    must(insert_promotion(tx, ended("pr-2", 50)));
    must(insert_promotion(tx, ended("pr-3", 40)));
    must(insert_promotion(tx, promotion_row("pr-4")));
    must(insert_schedule(tx, schedule("nightly", "tiny")));
    must(insert_schedule(tx, schedule("weekly", "large")));
    must(insert_schedule_fire(tx, fire("nightly", 10)));
    must(insert_schedule_fire(tx, fire("nightly", 20)));
    return insert_guard(tx, {.id = "gd-1",
                             .model = "tiny",
                             .promotion = "pr-2",
                             .version = "ve-b",
                             .contract = "sha256:contract",
                             .armed_us = 51,
                             .alarms = 2});
  });
  read(*store, [&](Reader& reader) -> Result<void> {
    const auto names = [&](const std::string& after, const std::optional<std::string>& text,
                           std::int64_t limit) {
      std::vector<std::string> found;
      for (const auto& model : must(models_by_name(reader, after, text, limit))) found.push_back(model.name);
      return found;
    };
    CHECK(names("", std::nullopt, 9) == std::vector<std::string>{"large", "tiny"});
    CHECK(names("", std::nullopt, 1) == std::vector<std::string>{"large"});
    CHECK(names("large", std::nullopt, 9) == std::vector<std::string>{"tiny"});
    CHECK(names("", "in", 9) == std::vector<std::string>{"tiny"});
    const auto open = must(open_promotions_of(reader, kTiny));
    REQUIRE(open.size() == 2);
    CHECK(open[0].id == "pr-1");
    CHECK(open[1].id == "pr-4");
    const auto last = must(last_ended_of(reader, std::vector<std::string>{"tiny", "large"}));
    REQUIRE(last.size() == 1);
    CHECK(last[0].id == "pr-2");
    CHECK(must(schedules_of(reader, kTiny)).at(0).name == "nightly");
    const auto fires = must(last_fires_of(reader, kTiny));
    REQUIRE(fires.size() == 1);
    CHECK(fires[0] == fire("nightly", 20));
    CHECK(must(guard_marks_of(reader, kTiny)) == std::vector<GuardMark>{{"tiny", true, 2}});
    CHECK(must(overview_counts(reader)) == OverviewCounts{2, 2, 0, 1, 1});
    return {};
  });
  write(*store, [&](Tx& tx) { return end_guard(tx, "gd-1", "another serves", 60, 1); });
  read(*store, [&](Reader& reader) -> Result<void> {
    CHECK(must(guard_marks_of(reader, kTiny)) == std::vector<GuardMark>{{"tiny", false, 2}});
    CHECK(must(overview_counts(reader)).alarms == 0);
    return {};
  });
}
