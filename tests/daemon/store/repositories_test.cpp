#include <doctest/doctest.h>

#include "daemon/store/blobs.hpp"
#include "daemon/store/idempotency.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/promotions/approvals.hpp"
#include "daemon/store/promotions/router_windows.hpp"
#include "daemon/store/promotions/spending.hpp"
#include "daemon/store/promotions/stream_states.hpp"
#include "daemon/store/promotions/verdicts.hpp"
#include "daemon/store/promotions/waivers.hpp"
#include "daemon/store/registry/routes.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "daemon/store/sqlite/write_scope.hpp"
#include "schema/sha256.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::store;
using namespace driftgate::store::testing;

namespace {

/// The error code of a write, or nothing when it succeeded.
template <typename F>
std::optional<ErrorCode> code(Store& store, F&& f) {
  const auto done = store.write("test", std::forward<F>(f));
  if (done) return std::nullopt;
  return done.error().code;
}

}  // namespace

TEST_CASE_FIXTURE(StoreFixture, "a contract is stored once and found by digest and by name") {
  const ContractRow first{.digest = "sha256:1",
                          .name = "c",
                          .canonical = std::string("\0{}", 3),
                          .registrant = "ada",
                          .registered_us = 5,
                          .evidence_seq = 7};
  ContractRow second = first;
  second.digest = "sha256:2";
  CHECK(write(*store, [&](Tx& tx) { return insert_contract(tx, first); }));
  CHECK(!write(*store, [&](Tx& tx) { return insert_contract(tx, first); }));
  CHECK(write(*store, [&](Tx& tx) { return insert_contract(tx, second); }));
  read(*store, [&](Reader& reader) -> Result<void> {
    CHECK(must(find_contract(reader, "sha256:1")) == first);
    CHECK(must(find_contract_by_name(reader, "c")) == second);
    CHECK(!must(find_contract(reader, "sha256:3")));
    CHECK(must(list_contracts(reader, "", 10)) == std::vector{first, second});
    CHECK(must(list_contracts(reader, "", 1)) == std::vector{first});
    CHECK(must(list_contracts(reader, "sha256:1", 10)) == std::vector{second});
    return {};
  });
}

TEST_CASE_FIXTURE(StoreFixture, "a kernel's name stands for one identity") {
  const KernelRow kernel{
      .name = "k", .digest = "sha256:1", .canonical = "{}", .registrant = "ada", .evidence_seq = 0};
  KernelRow other = kernel;
  other.digest = "sha256:2";
  CHECK(write(*store, [&](Tx& tx) { return insert_kernel(tx, kernel); }));
  CHECK(!write(*store, [&](Tx& tx) { return insert_kernel(tx, kernel); }));
  CHECK(code(*store, [&](Tx& tx) { return insert_kernel(tx, other); }) == ErrorCode::already_exists);
  CHECK(read(*store, [](Reader& reader) { return find_kernel(reader, "k"); }) == kernel);
}

TEST_CASE_FIXTURE(StoreFixture,
                  "an engine needs its kernel, and is replaced only while no promotion uses it") {
  CHECK(code(*store, [](Tx& tx) { return insert_engine(tx, {.name = "e", .kernel = "nowhere"}); }) ==
        ErrorCode::not_found);
  insert_world(*store);
  auto engine = read(*store, [](Reader& reader) { return find_engine(reader, "engine-b"); }).value();
  CHECK(!write(*store, [&](Tx& tx) { return insert_engine(tx, engine); }));
  engine.base_url = "http://127.0.0.1:2";
  CHECK(code(*store, [&](Tx& tx) { return insert_engine(tx, engine); }) == ErrorCode::already_exists);
  write(*store, [&](Tx& tx) { return replace_engine(tx, engine); });
  CHECK(read(*store, [](Reader& reader) { return find_engine(reader, "engine-b"); }) == engine);
  write(*store, [&](Tx& tx) { return insert_promotion(tx, promotion_row("pr-1")); });
  CHECK(code(*store, [&](Tx& tx) { return replace_engine(tx, engine); }) == ErrorCode::conflict);
}

TEST_CASE_FIXTURE(StoreFixture, "the same version keeps its first id") {
  insert_world(*store);
  auto version = read(*store, [](Reader& reader) { return find_version(reader, "ve-a"); }).value();
  version.id = "ve-other";
  CHECK(write(*store, [&](Tx& tx) { return ensure_version(tx, version); }).id == "ve-a");
  version.base_url = "http://127.0.0.1:3";
  CHECK(write(*store, [&](Tx& tx) { return ensure_version(tx, version); }).id == "ve-other");
}

TEST_CASE_FIXTURE(StoreFixture, "a model's epoch only grows and fences older daemons") {
  insert_world(*store);
  CHECK(write(*store, [](Tx& tx) { return take_model_lock(tx, "tiny", "daemon-1", 1); }) == 1);
  CHECK(write(*store, [](Tx& tx) { return take_model_lock(tx, "tiny", "daemon-2", 2); }) == 2);
  CHECK(code(*store, [](Tx& tx) { return set_incumbent(tx, "tiny", 1, "ve-b", 3); }) == ErrorCode::conflict);
  write(*store, [](Tx& tx) { return set_incumbent(tx, "tiny", 2, "ve-b", 3); });
  CHECK(code(*store, [](Tx& tx) { return set_incumbent(tx, "tiny", 2, "ve-none", 3); }) ==
        ErrorCode::not_found);
  const auto model = read(*store, [](Reader& reader) { return get_model(reader, "tiny"); });
  CHECK(model.incumbent == "ve-b");
  CHECK(model.lock_owner == "daemon-2");
  CHECK(code(*store, [](Tx& tx) { return take_model_lock(tx, "none", "d", 1); }) == ErrorCode::not_found);
}

TEST_CASE_FIXTURE(StoreFixture, "a hold is set, replaced and lifted once") {
  insert_world(*store);
  CHECK(code(*store, [](Tx& tx) { return lift_hold(tx, "tiny", 1); }) == ErrorCode::conflict);
  write(*store, [](Tx& tx) { return set_hold(tx, "tiny", "first", "ada", 1); });
  write(*store, [](Tx& tx) { return set_hold(tx, "tiny", "rolled back", "driftgate", 2, "pr-1"); });
  const auto held = read(*store, [](Reader& reader) { return get_model(reader, "tiny"); });
  CHECK(held.hold == "rolled back");
  CHECK(held.hold_promotion == "pr-1");
  write(*store, [](Tx& tx) { return lift_hold(tx, "tiny", 3); });
  const auto lifted = read(*store, [](Reader& reader) { return get_model(reader, "tiny"); });
  CHECK(!lifted.hold);
  CHECK(lifted.revision > held.revision);
  CHECK(code(*store, [](Tx& tx) { return lift_hold(tx, "tiny", 4); }) == ErrorCode::conflict);
  CHECK(code(*store, [](Tx& tx) { return set_hold(tx, "none", "r", "b", 1); }) == ErrorCode::not_found);
}

TEST_CASE_FIXTURE(StoreFixture, "a promotion reads back exactly as it was written") {
  insert_world(*store);
  auto row = promotion_row("pr-1");
  row.state = PromotionState::paused;
  row.stage = "canary";
  row.attempt = 2;
  row.traffic = Traffic::live;
  row.deadline_us = 99;
  row.resume_state = PromotionState::running;
  row.reason = "für später";
  row.evidence_seq = 4;
  write(*store, [&](Tx& tx) { return insert_promotion(tx, row); });
  CHECK(read(*store, [](Reader& reader) { return get_promotion(reader, "pr-1"); }) == row);
}

TEST_CASE_FIXTURE(StoreFixture, "one promotion holds a model, others wait queued") {
  insert_world(*store);
  auto first = promotion_row("pr-1");
  first.state = PromotionState::running;
  auto second = promotion_row("pr-2");
  write(*store, [&](Tx& tx) { return insert_promotion(tx, first); });
  write(*store, [&](Tx& tx) { return insert_promotion(tx, second); });
  second.state = PromotionState::running;
  CHECK(code(*store, [&](Tx& tx) { return update_promotion(tx, second); }) == ErrorCode::conflict);
  first.state = PromotionState::aborted;
  first.ended_us = 50;
  write(*store, [&](Tx& tx) { return update_promotion(tx, first); });
  write(*store, [&](Tx& tx) { return update_promotion(tx, second); });
  auto third = promotion_row("pr-3");
  third.state = PromotionState::running;
  CHECK(code(*store, [&](Tx& tx) { return insert_promotion(tx, third); }) == ErrorCode::conflict);
  const auto open = read(*store, [](Reader& reader) { return open_promotions(reader); });
  REQUIRE(open.size() == 1);
  CHECK(open[0] == second);
}

TEST_CASE_FIXTURE(StoreFixture, "a promotion is changed only from what was read, and not after its end") {
  insert_world(*store);
  auto row = promotion_row("pr-1");
  write(*store, [&](Tx& tx) { return insert_promotion(tx, row); });
  auto stale = row;
  row.state = PromotionState::running;
  write(*store, [&](Tx& tx) { return update_promotion(tx, row); });
  CHECK(row.revision == 2);
  CHECK(code(*store, [&](Tx& tx) { return update_promotion(tx, stale); }) == ErrorCode::conflict);
  row.state = PromotionState::rejected;
  write(*store, [&](Tx& tx) { return update_promotion(tx, row); });
  row.reason = "now with a better reason";
  write(*store, [&](Tx& tx) { return update_promotion(tx, row); });
  row.state = PromotionState::running;
  CHECK(code(*store, [&](Tx& tx) { return update_promotion(tx, row); }) == ErrorCode::conflict);
}

TEST_CASE_FIXTURE(StoreFixture, "promotions are listed newest first, by model and state, in pages") {
  insert_world(*store);
  for (const char* id : {"pr-1", "pr-2", "pr-3"}) {
    write(*store, [&](Tx& tx) { return insert_promotion(tx, promotion_row(id)); });
  }
  const auto ids = [&](PromotionFilter filter) {
    std::string text;
    for (const auto& row : read(*store, [&](Reader& reader) { return list_promotions(reader, filter); }))
      text += row.id;
    return text;
  };
  CHECK(ids({}) == "pr-3pr-2pr-1");
  CHECK(ids({.limit = 2}) == "pr-3pr-2");
  CHECK(ids({.before = "pr-2"}) == "pr-1");
  CHECK(ids({.model = "tiny", .before = "pr-3", .limit = 1}) == "pr-2");
  CHECK(ids({.model = "other"}).empty());
  CHECK(ids({.state = PromotionState::running}).empty());
  CHECK(ids({.model = "tiny", .state = PromotionState::queued}) == "pr-3pr-2pr-1");
  CHECK(!store->read([](Reader& reader) { return list_promotions(reader, {.limit = 0}); }));
  CHECK(!store->read([](Reader& reader) { return list_promotions(reader, {.limit = 1'001}); }));
}

TEST_CASE_FIXTURE(StoreFixture, "a promotion of unknown things is refused") {
  insert_world(*store);
  auto row = promotion_row("pr-1");
  row.contract = "sha256:none";
  CHECK(code(*store, [&](Tx& tx) { return insert_promotion(tx, row); }) == ErrorCode::not_found);
}

TEST_CASE_FIXTURE(StoreFixture,
                  "a stage run is begun once, changes while it runs and is final after its end") {
  const StageKey key = insert_running_stage(*store);
  auto run = read(*store, [&](Reader& reader) { return find_stage_run(reader, key); }).value();
  CHECK(code(*store, [&](Tx& tx) { return insert_stage_run(tx, run); }) == ErrorCode::already_exists);
  run.watermark = 12;
  run.step = 1;
  run.progress = "{\"done\":3}";
  write(*store, [&](Tx& tx) { return update_stage_run(tx, run); });
  run.state = StageRunState::pass;
  run.ended_us = 40;
  run.report = "sha256:report";
  write(*store, [&](Tx& tx) { return update_stage_run(tx, run); });
  CHECK(read(*store, [&](Reader& reader) { return list_stage_runs(reader, "pr-1"); }) == std::vector{run});
  CHECK(code(*store, [&](Tx& tx) { return update_stage_run(tx, run); }) == ErrorCode::conflict);
  run.key.attempt = 2;
  CHECK(code(*store, [&](Tx& tx) { return update_stage_run(tx, run); }) == ErrorCode::not_found);
  CHECK(run.key.text() == "pr-1/offline-numeric/2");
}

TEST_CASE_FIXTURE(StoreFixture, "a job dispatched twice is one job") {
  const StageKey key = insert_running_stage(*store);
  JobRow job{.id = "job-1", .stage = key, .name = "drift", .kind = "drift", .dir = "/jobs/1"};
  CHECK(write(*store, [&](Tx& tx) { return ensure_job(tx, job); }) == job);
  JobRow again = job;
  again.id = "job-2";
  CHECK(write(*store, [&](Tx& tx) { return ensure_job(tx, again); }) == job);
  CHECK(read(*store, [](Reader& reader) { return open_jobs(reader); }) == std::vector{job});
  job.state = JobState::done;
  job.ended_us = 5;
  job.result = "{}";
  write(*store, [&](Tx& tx) { return update_job(tx, job); });
  CHECK(read(*store, [](Reader& reader) { return open_jobs(reader); }).empty());
  CHECK(read(*store, [&](Reader& reader) { return list_jobs(reader, key); }) == std::vector{job});
  CHECK(code(*store, [&](Tx& tx) { return update_job(tx, again); }) == ErrorCode::not_found);
}

TEST_CASE_FIXTURE(StoreFixture, "routes only move forward by epoch and revision") {
  insert_world(*store);
  RouteRow route{.model = "tiny", .epoch = 2, .revision = 5, .route = "{\"bp\":1}", .time_us = 1};
  const auto put = [&](RouteRow row) {
    return code(*store, [&](Tx& tx) { return put_desired_route(tx, row); });
  };
  CHECK(!put(route));
  CHECK(!put(route));
  RouteRow other = route;
  other.route = "{\"bp\":2}";
  CHECK(put(other) == ErrorCode::conflict);
  other.revision = 4;
  CHECK(put(other) == ErrorCode::conflict);
  other.epoch = 1;
  other.revision = 9;
  CHECK(put(other) == ErrorCode::conflict);
  other.epoch = 3;
  other.revision = 1;
  CHECK(!put(other));
  CHECK(read(*store, [](Reader& reader) { return find_desired_route(reader, "tiny"); }) == other);
  write(*store, [&](Tx& tx) { return put_applied_route(tx, other); });
  other.time_us = 7;
  write(*store, [&](Tx& tx) { return put_applied_route(tx, other); });
  CHECK(read(*store, [](Reader& reader) { return find_applied_route(reader, "tiny"); }) == other);
  CHECK(code(*store, [&](Tx& tx) { return put_applied_route(tx, route); }) == ErrorCode::conflict);
}

TEST_CASE_FIXTURE(StoreFixture, "a verdict is replaced by the newest of its clause and slice") {
  const StageKey key = insert_running_stage(*store);
  VerdictRow verdict{.stage = key,
                     .clause = "numerical.kl",
                     .slice = "",
                     .verdict = "inconclusive",
                     .detail = "{}",
                     .evidence_seq = 3};
  write(*store, [&](Tx& tx) { return put_verdict(tx, verdict); });
  verdict.verdict = "pass";
  verdict.evidence_seq = 9;
  write(*store, [&](Tx& tx) { return put_verdict(tx, verdict); });
  VerdictRow slice = verdict;
  slice.slice = "language=de";
  slice.verdict = "violated";
  slice.evidence_seq = 8;
  write(*store, [&](Tx& tx) { return put_verdict(tx, slice); });
  CHECK(read(*store, [&](Reader& reader) { return list_verdicts(reader, key); }) ==
        std::vector{verdict, slice});
  CHECK(read(*store, [](Reader& reader) { return list_promotion_verdicts(reader, "pr-1"); }) ==
        std::vector{slice, verdict});
  slice.verdict = "maybe";
  CHECK(code(*store, [&](Tx& tx) { return put_verdict(tx, slice); }) == ErrorCode::conflict);
}

TEST_CASE_FIXTURE(StoreFixture,
                  "a person's later decision on the same evidence takes the earlier one's place") {
  const StageKey key = insert_running_stage(*store);
  ApprovalRow approval{.id = "ap-1", .stage = key, .step = 1, .who = "bob", .evidence_digest = "sha256:e"};
  write(*store, [&](Tx& tx) { return put_approval(tx, approval); });
  ApprovalRow again = approval;
  again.id = "ap-2";
  again.decision = Decision::reject;
  again.given_us = 7;
  write(*store, [&](Tx& tx) { return put_approval(tx, again); });
  ApprovalRow other = again;
  other.id = "ap-3";
  other.evidence_digest = "sha256:other";
  write(*store, [&](Tx& tx) { return put_approval(tx, other); });
  CHECK(read(*store, [](Reader& reader) { return list_approvals(reader, "pr-1"); }) ==
        std::vector{again, other});
}

TEST_CASE_FIXTURE(StoreFixture, "a person waives a clause once for the same evidence") {
  const StageKey key = insert_running_stage(*store);
  WaiverRow waiver{
      .id = "wv-1", .stage = key, .clause = "runtime.ttft", .who = "bob", .evidence_digest = "sha256:e"};
  write(*store, [&](Tx& tx) { return insert_waiver(tx, waiver); });
  WaiverRow again = waiver;
  again.id = "wv-2";
  CHECK(code(*store, [&](Tx& tx) { return insert_waiver(tx, again); }) == ErrorCode::already_exists);
  again.who = "cleo";
  write(*store, [&](Tx& tx) { return insert_waiver(tx, again); });
  CHECK(read(*store, [](Reader& reader) { return list_waivers(reader, "pr-1"); }) ==
        std::vector{waiver, again});
}

TEST_CASE_FIXTURE(StoreFixture, "a stream's state never goes back to an older window") {
  const StageKey key = insert_running_stage(*store);
  StreamStateRow state{.stage = key,
                       .clause = "runtime.errors#harm",
                       .slice = "",
                       .watermark = 4,
                       .state = std::string("\0\xff", 2)};
  write(*store, [&](Tx& tx) { return put_stream_state(tx, state); });
  auto older = state;
  older.watermark = 3;
  CHECK(code(*store, [&](Tx& tx) { return put_stream_state(tx, older); }) == ErrorCode::conflict);
  state.watermark = 5;
  state.state.clear();
  write(*store, [&](Tx& tx) { return put_stream_state(tx, state); });
  CHECK(read(*store, [&](Reader& reader) { return find_stream_state(reader, key, state.clause, ""); }) ==
        state);
}

TEST_CASE_FIXTURE(StoreFixture, "blobs are named by their content and stored once") {
  const std::string bytes("a\0b", 3);
  const auto digest = write(*store, [&](Tx& tx) { return put_blob(tx, bytes, "text/plain", 1); });
  CHECK(digest == schema::sha256_digest(bytes));
  CHECK(write(*store, [&](Tx& tx) { return put_blob(tx, bytes, "application/json", 2); }) == digest);
  const auto blob = read(*store, [&](Reader& reader) { return find_blob(reader, digest); }).value();
  CHECK(blob == BlobRow{digest, "text/plain", bytes, 1});
  const auto empty = write(*store, [&](Tx& tx) { return put_blob(tx, "", "text/plain", 1); });
  CHECK(read(*store, [&](Reader& reader) { return find_blob(reader, empty); })->bytes.empty());
  const std::string large(kMaxBlobBytes + 1, 'x');
  CHECK(code(*store, [&](Tx& tx) { return put_blob(tx, large, "text/plain", 1); }) ==
        ErrorCode::limit_exceeded);
}

TEST_CASE_FIXTURE(StoreFixture, "an idempotency key replays its answer to the same request only") {
  const auto find = [&](const KeyedRequest& request) {
    return store->read([&](Reader& reader) { return idempotency_find(reader, request); });
  };
  const StoredResponse response{
      .status = 201, .headers = "{\"location\":\"/x\"}", .body = "{}", .effect = "x"};
  CHECK(!must(find({"ada", "k", "r1"})).has_value());
  write(*store, [&](Tx& tx) { return idempotency_keep(tx, {"ada", "k", "r1"}, response, 10); });
  CHECK(must(find({"ada", "k", "r1"})) == response);
  CHECK(find({"ada", "k", "r2"}).error().code == ErrorCode::invalid_argument);
  CHECK(!must(find({"bob", "k", "r2"})).has_value());
  const auto twice = store->write("twice", [&](Tx& tx) {
    return idempotency_keep(tx, {"ada", "k", "r1"}, response, 11);
  });
  CHECK(twice.error().code == ErrorCode::already_exists);
  CHECK(find({"ada", "", "r"}).error().code == ErrorCode::limit_exceeded);
  CHECK(find({"ada", std::string(256, 'k'), "r"}).error().code == ErrorCode::limit_exceeded);
  CHECK(write(*store, [](Tx& tx) { return idempotency_forget(tx, 5, true); }) == 0);
  CHECK(must(find({"ada", "k", "r1"})) == response);
  CHECK(write(*store, [](Tx& tx) { return idempotency_forget(tx, 11, false); }) == 1);
  CHECK(!must(find({"ada", "k", "r2"})).has_value());
}

namespace {

/// Counts what the store asks it, and refuses on demand.
class CountingScope final : public WriteScope {
 public:
  Result<void> allow(Reader& reader) override {
    ++asked;
    auto keys = list_rows<std::string>(reader, {"count keys", "SELECT key FROM idempotency"}, {});
    keys_seen = keys ? keys->size() : 0;
    if (refuse) return schema::fail(ErrorCode::unauthenticated, "no more");
    return {};
  }
  Result<void> made(Tx& tx, const Made& made) override {
    return idempotency_keep(tx, {"ada", made.id, "r"}, {.status = 201, .effect = std::string(made.id)}, 1);
  }
  int asked = 0;
  std::size_t keys_seen = 0;
  bool refuse = false;
};

}  // namespace

TEST_CASE_FIXTURE(
    StoreFixture,
    "a write scope is asked in each transaction of its thread, and an answer commits with its effect") {
  CountingScope scope;
  const auto make = [&](const std::string& id, bool fails) {
    return store->write("make", [&](Tx& tx) -> Result<void> {
      auto noted = note_made(tx, {.id = id});
      if (!noted) return noted;
      return fails ? schema::fail(ErrorCode::conflict, "not made") : Result<void>{};
    });
  };
  const auto kept = [&](const std::string& id) {
    return read(*store,
                [&](Reader& reader) {
                  return idempotency_find(reader, {"ada", id, "r"});
                })
        .has_value();
  };
  REQUIRE(make("outside", false));
  CHECK_FALSE(kept("outside"));
  {
    const EnterWriteScope entered(&scope);
    REQUIRE(make("first", false));
    CHECK(scope.asked == 1);
    CHECK_FALSE(make("undone", true));
    CHECK(make("first", false).error().code == ErrorCode::already_exists);
    CHECK(scope.keys_seen == 1);
    scope.refuse = true;
    CHECK(make("refused", false).error().code == ErrorCode::unauthenticated);
    leave_write_scope();
    CHECK(make("follows", false));
    CHECK(scope.asked == 4);
  }
  CHECK(current_write_scope() == nullptr);
  CHECK(kept("first"));
  for (const char* id : {"undone", "refused", "follows"}) CHECK_FALSE(kept(id));
}

TEST_CASE_FIXTURE(StoreFixture, "the same inputs spend once and new ones are the next run") {
  const SpendingKey key{"sha256:ckpt", "sha256:kernel", "sha256:contract", "offline-numeric"};
  const auto run = [&](const SpendingKey& of, std::string_view inputs, const StageKey& stage) {
    return write(*store, [&](Tx& tx) { return spend(tx, of, inputs, stage, 1); });
  };
  const StageKey first{"pr-1", "offline-numeric", 1};
  CHECK(run(key, "in-1", first).row.k == 1);
  const auto again = run(key, "in-1", {"pr-2", "offline-numeric", 1});
  CHECK(again.reused);
  CHECK(again.row.run == first);
  CHECK(run(key, "in-2", {"pr-3", "offline-numeric", 1}).row.k == 2);
  SpendingKey other = key;
  other.checkpoint = "sha256:other";
  CHECK(run(other, "in-1", {"pr-4", "offline-numeric", 1}).row.k == 1);
  CHECK(read(*store, [&](Reader& reader) { return next_run(reader, key); }) == 3);
  other.stage = "statistical-slice";
  CHECK(read(*store, [&](Reader& reader) { return next_run(reader, other); }) == 1);
  CHECK(read(*store, [&](Reader& reader) { return find_spent(reader, key, "in-2"); })->k == 2);
  CHECK_FALSE(read(*store, [&](Reader& reader) { return find_spent(reader, key, "in-3"); }).has_value());
}

TEST_CASE_FIXTURE(StoreFixture, "each router has a watermark of its own") {
  const auto advance = [&](std::string_view router, std::uint64_t number) {
    must(store->write("advance", [&](Tx& tx) { return advance_watermark(tx, router, number, 1); }));
    return read(*store, [&](Reader& reader) { return window_watermark(reader, router); });
  };
  CHECK(advance("r1", 1) == 1);
  CHECK(advance("r1", 1) == 1);
  CHECK(advance("r1", 3) == 3);
  CHECK(advance("r2", 1) == 1);
  CHECK(read(*store, [](Reader& reader) { return window_watermark(reader, "r3"); }) == 0);
}
