// Every table that is derived from the log is compared with it: whatever somebody changes with sqlite3 is
// named as an operator knows it.
#include <doctest/doctest.h>

#include <filesystem>

#include "daemon/evidence/verify/table_checks.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/promotions/approvals.hpp"
#include "daemon/store/promotions/blocks.hpp"
#include "daemon/store/promotions/verdicts.hpp"
#include "daemon/store/promotions/waivers.hpp"
#include "daemon/store/registry/engine_access.hpp"
#include "daemon/store/registry/recipes.hpp"
#include "daemon/store/registry/routes.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"
#include "tests/daemon/evidence/promotion_log.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
using schema::EvidenceKind;
using store::Tx;
namespace fs = std::filesystem;

namespace {

constexpr store::Sql kToken{
    "token", "INSERT INTO tokens VALUES('tok-1', ?1, 'ci', 'approver,viewer', 'ada', 5, NULL, NULL)"};
constexpr const char* kUrl = "http://127.0.0.1:1/";

/// A model with a promotion under way, and one row in every other table, each with its entry.
class World {
 public:
  explicit World(const fs::path& folder) {
    auto store = open_store(folder);
    write(*store, [&](Tx& tx) -> Result<void> {
      registry(tx);
      model(tx);
      promotion(tx);
      orders(tx);
      return {};
    });
    const auto found = must(compare_all_tables(*store, [] { return true; }));
    for (const auto& difference : found) FAIL_CHECK(to_text(difference));
    CHECK(must(compare_live_tables(*store)).empty());
  }

 private:
  std::int64_t add(Tx& tx, EvidenceKind kind, const std::string& actor, schema::EvidenceSubject subject,
                   Body body) {
    return must(append(tx, {.time_us = 5,
                            .kind = kind,
                            .actor = actor,
                            .subject = std::move(subject),
                            .body = std::move(body)}))
        .seq;
  }

  void registry(Tx& tx) {
    contract_ = schema::sha256_digest(kContract);
    const auto seq =
        add(tx, EvidenceKind::contract_registered, "ada", {}, {{"name", "c"}, {"digest", contract_}});
    must(store::insert_contract(tx, {.digest = contract_,
                                     .name = "c",
                                     .canonical = kContract,
                                     .registrant = "ada",
                                     .evidence_seq = seq}));
    for (const std::string name : {"a", "b"}) {
      const std::string canonical = R"({"k":")" + name + "\"}";
      const auto digest = schema::sha256_digest(canonical);
      const auto kernel = add(tx, EvidenceKind::kernel_registered, "ada", {},
                              {{"name", "kernel-" + name}, {"digest", digest}});
      must(store::insert_kernel(tx, {.name = "kernel-" + name,
                                     .digest = digest,
                                     .canonical = canonical,
                                     .registrant = "ada",
                                     .evidence_seq = kernel}));
      const auto engine = add(tx, EvidenceKind::engine_registered, "ada", {.checkpoint = "sha256:w"},
                              {{"name", "engine-" + name},
                               {"url", kUrl + name},
                               {"kernel", "kernel-" + name},
                               {"checkpoint_uri", "file:w"},
                               {"max_requests_per_second", 9},
                               {"key_file", name == "b" ? "/keys/b" : ""},
                               {"key_header", ""},
                               {"ca_file", ""},
                               {"ca_digest", ""},
                               {"abilities", Body{{"echo", true}}}});
      must(store::put_engine_access(
          tx, {.base_url = kUrl + name, .key_file = name == "b" ? "/keys/b" : "", .evidence_seq = engine}));
      must(store::insert_engine(tx, {.name = "engine-" + name,
                                     .base_url = kUrl + name,
                                     .kernel = "kernel-" + name,
                                     .checkpoint = "sha256:w",
                                     .checkpoint_uri = "file:w",
                                     .abilities = R"({"echo":true})",
                                     .evidence_seq = engine,
                                     .max_requests_per_second = 9}));
      must(store::ensure_version(tx, {.id = "ve-" + name,
                                      .checkpoint = "sha256:w",
                                      .kernel = "kernel-" + name,
                                      .engine = "engine-" + name,
                                      .base_url = kUrl + name}));
    }
    must(store::put_blob(tx, "a blob", "text/plain", 1));
  }

  void model(Tx& tx) {
    const schema::EvidenceSubject subject{.model = "tiny", .checkpoint = "sha256:w"};
    add(tx, EvidenceKind::model_bootstrapped, "ada", subject,
        {{"version", "ve-a"},
         {"engine", "engine-a"},
         {"kernel", "kernel-a"},
         {"url", std::string(kUrl) + "a"}});
    must(store::insert_model(tx, {.name = "tiny", .incumbent = "ve-a", .epoch = 1}));
    const Body route{
        {"model", "tiny"},
        {"epoch", 1},
        {"revision", 2},
        {"candidate", nullptr},
        {"incumbent", Body{{"version", "ve-a"}, {"kernel", "kernel-a"}, {"url", std::string(kUrl) + "a"}}}};
    const std::string json = must(schema::write_canonical(route));
    for (const auto kind : {EvidenceKind::route_desired, EvidenceKind::route_applied})
      add(tx, kind, "driftgate", subject, {{"route", route}});
    must(store::put_desired_route(tx, {.model = "tiny", .epoch = 1, .revision = 2, .route = json}));
    must(store::put_applied_route(tx, {.model = "tiny", .epoch = 1, .revision = 2, .route = json}));
    add(tx, EvidenceKind::hold_set, "olga", {.model = "tiny"}, {{"reason", "a look"}});
    must(store::set_hold(tx, "tiny", "a look", "olga", 5));
  }

  void promotion(Tx& tx) {
    schema::EvidenceSubject about{
        .model = "tiny", .promotion = "pr-1", .checkpoint = "sha256:w", .contract = contract_};
    add(tx, EvidenceKind::promotion_requested, "bob", about,
        {{"candidate", "ve-b"},
         {"engine", "engine-b"},
         {"kernel", "kernel-b"},
         {"url", std::string(kUrl) + "b"},
         {"seed", 7},
         {"request", Body{{"note", "x"}}}});
    about.stage = "offline-numeric";
    about.attempt = 1;
    add(tx, EvidenceKind::state_changed, "driftgate", about,
        {{"from", "queued"},
         {"to", "running"},
         {"stage", "offline-numeric"},
         {"attempt", 1},
         {"traffic", "never_exposed"},
         {"reason", "baseline locked at ve-a"},
         {"baseline", "ve-a"},
         {"deadline_us", -1},
         {"outcome_digest", ""}});
    const auto verdict =
        add(tx, EvidenceKind::verdict_reached, "driftgate", about, clause_body("inconclusive"));
    add(tx, EvidenceKind::verdict_reached, "driftgate", about, stage_body("inconclusive", verdict, 1));
    const std::string reason = "seen";
    add(tx, EvidenceKind::approval_given, "cleo", about,
        {{"decision", "approve"},
         {"approval", "ap-1"},
         {"step", 2},
         {"evidence_digest", "sha256:e"},
         {"reason", reason}});
    const auto last = add(tx, EvidenceKind::waiver_given, "dan", about,
                          {{"decision", "waive"},
                           {"waiver", "wv-1"},
                           {"clause", "numerical.kl"},
                           {"evidence_digest", "sha256:r"},
                           {"reason", reason}});
    promotion_rows(tx, verdict, last, reason);
  }

  void promotion_rows(Tx& tx, std::int64_t verdict, std::int64_t last, const std::string& reason) {
    auto row = promotion_row("pr-1");
    row.contract = contract_;
    row.requester = "bob";
    row.state = store::PromotionState::running;
    row.stage = "offline-numeric";
    row.attempt = 1;
    row.baseline = "ve-a";
    row.seed = 7;
    row.request = R"({"note":"x"})";
    row.evidence_seq = last;
    must(store::insert_promotion(tx, row));
    const store::StageKey key{"pr-1", "offline-numeric", 1};
    must(store::insert_stage_run(
        tx, {.key = key, .state = store::StageRunState::inconclusive, .report = "sha256:r"}));
    must(store::put_verdict(tx, {.stage = key,
                                 .clause = "numerical.kl",
                                 .slice = "",
                                 .verdict = "inconclusive",
                                 .detail = R"({"n":400,"upper":0.75,"p_value":null})",
                                 .evidence_seq = verdict}));
    must(store::put_approval(tx, {.id = "ap-1",
                                  .stage = key,
                                  .step = 2,
                                  .who = "cleo",
                                  .evidence_digest = "sha256:e",
                                  .reason = reason,
                                  .given_us = 5}));
    must(store::insert_waiver(tx, {.id = "wv-1",
                                   .stage = key,
                                   .clause = "numerical.kl",
                                   .who = "dan",
                                   .evidence_digest = "sha256:r",
                                   .reason = reason,
                                   .given_us = 5}));
  }

  void orders(Tx& tx) {
    const std::string hash(32, 'h');
    add(tx, EvidenceKind::token_granted, "ada", {},
        {{"token", "tok-1"},
         {"name", "ci"},
         {"scopes", schema::EntryValue::Array{"approver", "viewer"}},
         {"hash_digest", schema::sha256_digest(hash)}});
    must(tx.run(kToken, {store::Blob{hash}}));
    const auto set = add(tx, EvidenceKind::block_set, "driftgate",
                         {.promotion = "pr-0", .checkpoint = "sha256:v", .contract = contract_},
                         {{"block", "bl-1"}, {"kernel", "kernel-b"}, {"reason", "violated"}});
    must(store::insert_block(tx, {.id = "bl-1",
                                  .checkpoint = "sha256:v",
                                  .kernel = "kernel-b",
                                  .contract = contract_,
                                  .promotion = "pr-0",
                                  .reason = "violated",
                                  .set_by = "driftgate",
                                  .evidence_seq = set}));
    add(tx, EvidenceKind::schedule_set, "ada", {.model = "tiny"},
        {{"schedule", "nightly"},
         {"revision", 1},
         {"cron", "0 3 * * *"},
         {"timezone", "UTC"},
         {"misfire", "skip"},
         {"grace_s", 60},
         {"if_running", "queue"},
         {"owner", "ada"},
         {"paused", false},
         {"request", Body{}}});
    must(store::insert_schedule(tx, {.name = "nightly",
                                     .cron = "0 3 * * *",
                                     .zone = "UTC",
                                     .model = "tiny",
                                     .request = "{}",
                                     .misfire = "skip",
                                     .grace_s = 60,
                                     .if_running = "queue",
                                     .owner = "ada"}));
    const auto fired = add(tx, EvidenceKind::schedule_skipped, "driftgate", {.model = "tiny"},
                           {{"schedule", "nightly"}, {"fire_us", 30}, {"why", "one runs"}, {"owner", "ada"}});
    must(store::insert_schedule_fire(tx, {.schedule = "nightly",
                                          .fire_us = 30,
                                          .outcome = "skipped",
                                          .why = "one runs",
                                          .owner = "ada",
                                          .evidence_seq = fired}));
    const auto recipe = add(tx, EvidenceKind::recipe_set, "ada", {.model = "tiny"},
                            {{"model", "tiny"},
                             {"change", "created"},
                             {"revision", 1},
                             {"digest", schema::document_digest("{}")},
                             {"recipe", Body{}}});
    must(store::put_recipe(tx, {.model = "tiny",
                                .document = "{}",
                                .digest = schema::document_digest("{}"),
                                .revision = 1,
                                .set_by = "ada",
                                .evidence_seq = recipe}));
  }

  std::string contract_;
};

/// Which differences a copy of the world has once `script` has changed it.
std::string told(const fs::path& world, const fs::path& folder, const char* script) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::copy_file(world / "driftgate.db", folder / "driftgate.db");
  change_database(folder,
                  std::string("PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON;") + script);
  auto store = open_store(folder);
  std::string text;
  for (const auto& difference : must(compare_all_tables(*store, [] { return true; })))
    text += to_text(difference) + "\n";
  return text;
}

constexpr std::pair<const char*, const char*> kChanges[] = {
    {"UPDATE contracts SET name = 'd'",
     "contract 'd': the name is 'd' in the table, but entry 0 (contract_registered) says 'c'"},
    {"UPDATE contracts SET canonical = CAST('{}' AS BLOB)",
     "contract 'c': the digest of its document is 'sha256:44136fa3"},
    {"UPDATE contracts SET registrant = 'eve'", "contract 'c': who registered it is 'eve' in the table"},
    {"UPDATE contracts SET evidence_seq = 1",
     "the table says that entry 1 registered it, which is kernel_registered"},
    {"UPDATE contracts SET evidence_seq = 99",
     "the table says that entry 99 registered it, which the log does not have"},
    {"DELETE FROM contracts",
     "contract 'c': it is not in the table as entry 0 (contract_registered) registered it"},
    {"UPDATE kernels SET canonical = CAST('{}' AS BLOB) WHERE name = 'kernel-a'",
     "kernel 'kernel-a': the digest of its document"},
    {"UPDATE kernels SET digest = 'sha256:0' WHERE name = 'kernel-b'",
     "kernel 'kernel-b': the digest is 'sha256:0' in the table"},
    {"DELETE FROM kernels WHERE name = 'kernel-b'", "kernel 'kernel-b': it is not in the table as entry 3"},
    {"UPDATE engines SET base_url = 'http://evil' WHERE name = 'engine-b'",
     "engine 'engine-b': the URL is 'http://evil' in the table, but entry 4 (engine_registered) says "
     "'http://127.0.0.1:1/b'"},
    {"UPDATE engines SET kernel = 'kernel-a' WHERE name = 'engine-b'",
     "engine 'engine-b': the kernel is 'kernel-a'"},
    {"UPDATE engines SET checkpoint = 'sha256:x' WHERE name = 'engine-b'",
     "engine 'engine-b': the checkpoint is 'sha256:x'"},
    {"UPDATE engines SET max_requests_per_second = 900", "engine 'engine-a': the rate that it takes is 900"},
    {"UPDATE engines SET abilities = '{\"echo\":false}'",
     "engine 'engine-a': what its probe found is '{\"echo\":false}'"},
    {"UPDATE engines SET name = 'engine-c' WHERE name = 'engine-b'",
     "engine 'engine-c': it is in the table, but no entry of the log registered it"},
    {"DELETE FROM engines WHERE name = 'engine-b'",
     "engine 'engine-b': it is not in the table, but entry 4 (engine_registered) registered it"},
    {"UPDATE engine_access SET key_file = '/etc/shadow'",
     "what the engine at http://127.0.0.1:1/b asks for: its key file is '/etc/shadow' in the table, but "
     "entry 4 "
     "(engine_registered) says '/keys/b'"},
    {"UPDATE engine_access SET base_url = 'http://evil'",
     "what the engine at http://evil asks for: it is in the table, but no entry of the log registered it"},
    {"DELETE FROM engine_access",
     "what the engine at http://127.0.0.1:1/b asks for: it is not in the table, but entry 4 "
     "(engine_registered) "
     "registered it"},
    {"UPDATE versions SET base_url = 'http://evil' WHERE id = 've-a'",
     "version ve-a: the URL is 'http://evil' in the table"},
    {"UPDATE versions SET checkpoint = 'sha256:x' WHERE id = 've-b'",
     "version ve-b: the checkpoint is 'sha256:x' in the table, but entry 9 (promotion_requested)"},
    {"DELETE FROM versions WHERE id = 've-b'",
     "version ve-b: it is not in the table, but entry 9 (promotion_requested) names it"},
    {"UPDATE models SET incumbent = 've-b'",
     "model 'tiny': the incumbent is 've-b' in the table, but entry 6 (route_desired) says 've-a'"},
    {"UPDATE models SET epoch = 0",
     "model 'tiny': epoch is 0 in the table, but entry 6 (route_desired) says 1"},
    {"UPDATE models SET hold = NULL",
     "model 'tiny': the table has no hold, but entry 8 (hold_set) set one that nobody lifted"},
    {"UPDATE models SET hold = 'another'", "model 'tiny': the reason of its hold is 'another'"},
    {"UPDATE models SET held_by = 'eve'", "model 'tiny': who set its hold is 'eve'"},
    {"UPDATE models SET name = 'big'",
     "model 'big': it is in the table, but no entry of the log installed it"},
    {"DELETE FROM models",
     "model 'tiny': it is not in the table, but entry 5 (model_bootstrapped) installed it"},
    {"UPDATE desired_routes SET route = replace(route, 've-a', 've-b')",
     "the desired route of model 'tiny': the route is"},
    {"UPDATE desired_routes SET revision = 9",
     "the desired route of model 'tiny': revision is 9 in the table"},
    {"UPDATE applied_routes SET epoch = 9", "the applied route of model 'tiny': epoch is 9 in the table"},
    {"UPDATE applied_routes SET route = '{'",
     "the applied route of model 'tiny': the route is '{' in the table"},
    {"DELETE FROM applied_routes",
     "the applied route of model 'tiny': it is not in the table, but entry 7 (route_applied) has it"},
    {"UPDATE promotions SET state = 'succeeded'",
     "promotion pr-1: the state is 'succeeded' in the table, but entry 10 (state_changed) says 'running'"},
    {"UPDATE promotions SET stage = 'canary'", "promotion pr-1: the stage is 'canary'"},
    {"UPDATE promotions SET attempt = 2", "promotion pr-1: the attempt is 2"},
    {"UPDATE promotions SET traffic = 'live'", "promotion pr-1: what users saw of it is 'live'"},
    {"UPDATE promotions SET baseline = 've-b'", "promotion pr-1: the baseline is 've-b'"},
    {"UPDATE promotions SET candidate = 've-a'", "promotion pr-1: the candidate is 've-a'"},
    {"UPDATE promotions SET requester = 'cleo'",
     "promotion pr-1: the requester is 'cleo' in the table, but entry 9 (promotion_requested) says 'bob'"},
    {"UPDATE promotions SET seed = 8", "promotion pr-1: the seed is 8"},
    {"UPDATE promotions SET request = '{}'", "promotion pr-1: the request is '{}'"},
    {"UPDATE promotions SET outcome = '{}'", "promotion pr-1: the digest of its outcome is 'sha256:44136fa3"},
    {"UPDATE promotions SET deadline_us = 9",
     "promotion pr-1: the deadline is 9 in the table, but entry 10 (state_changed) says -1"},
    {"UPDATE promotions SET evidence_seq = 10",
     "promotion pr-1: the entry of its last change is 10 in the table, but entry 14 (waiver_given) says "
     "14"},
    {"UPDATE promotions SET id = 'pr-2'",
     "promotion pr-2: it is in the table, but no entry of the log asked for it"},
    {"DELETE FROM promotions",
     "promotion pr-1: it is not in the table, but entry 9 (promotion_requested) asked for it"},
    {"UPDATE promotions SET state = 'dreaming'", "the row of pr-1: it cannot be read: "},
    {"UPDATE stage_runs SET state = 'pass'",
     "stage pr-1/offline-numeric/1: the state is 'pass' in the table, but entry 12 (verdict_reached) says "
     "'inconclusive'"},
    {"UPDATE stage_runs SET report = 'sha256:x'", "stage pr-1/offline-numeric/1: the report is 'sha256:x'"},
    {"UPDATE stage_runs SET attempt = 2",
     "stage pr-1/offline-numeric/2: it is in the table, but no entry of the log began it"},
    {"DELETE FROM stage_runs", "stage pr-1/offline-numeric/1: it is not in the table, but the log began it"},
    {"UPDATE verdicts SET verdict = 'pass'",
     "verdict of numerical.kl in pr-1/offline-numeric/1: the verdict is 'pass'"},
    {"UPDATE verdicts SET detail = replace(detail, '0.75', '0.005')",
     "'upper' of its detail in the table is not what entry 11 (verdict_reached) says"},
    {"UPDATE verdicts SET detail = 'good'", "the detail in the table is not a JSON object"},
    {"UPDATE verdicts SET slice = 'language=de'",
     "verdict of numerical.kl on language=de in pr-1/offline-numeric/1: it is in the table, but the log "
     "does not have it"},
    {"DELETE FROM verdicts",
     "verdict of numerical.kl in pr-1/offline-numeric/1: it is not in the table, but entry 11 "
     "(verdict_reached) reached it"},
    {"UPDATE approvals SET who = 'eve'",
     "approval ap-1 of pr-1: it is in the table as given by 'eve' for step 2, but the log does not have "
     "it"},
    {"UPDATE approvals SET decision = 'reject'", "approval ap-1 of pr-1: the decision is 'reject'"},
    {"UPDATE approvals SET given_us = 6",
     "approval ap-1 of pr-1: it was given at 6 by the table, which is after entry 13 (approval_given)"},
    {"DELETE FROM approvals",
     "approval ap-1 of pr-1: it is not in the table, but entry 13 (approval_given) gave it"},
    {"UPDATE waivers SET clause = 'numerical.soft'", "waiver wv-1 of pr-1: the clause is 'numerical.soft'"},
    {"UPDATE waivers SET who = 'eve'", "waiver wv-1 of pr-1: who gave it is 'eve'"},
    {"UPDATE waivers SET evidence_digest = 'sha256:x'", "waiver wv-1 of pr-1: the evidence is 'sha256:x'"},
    {"UPDATE waivers SET id = 'wv-2'",
     "waiver wv-2 of pr-1: it is in the table as given by 'dan' for numerical.kl, but the log does not "
     "have it"},
    {"DELETE FROM waivers",
     "waiver wv-1 of pr-1: it is not in the table, but entry 14 (waiver_given) gave it"},
    {"UPDATE tokens SET scopes = 'admin'",
     "token tok-1 of 'ci': the scopes is 'admin' in the table, but entry 15 (token_granted) says "
     "'approver,viewer'"},
    {"UPDATE tokens SET hash = zeroblob(32)", "token tok-1 of 'ci': the digest of its hash is"},
    {"UPDATE tokens SET expires_us = 9",
     "token tok-1 of 'ci': when it expires is 9 in the table, but entry 15 (token_granted) says -1"},
    {"UPDATE tokens SET revoked_us = 9",
     "token tok-1 of 'ci': it is revoked in the table, but no entry of the log revoked it"},
    {"INSERT INTO tokens SELECT 'tok-2', zeroblob(32), 'eve', 'admin', granted_by, created_us, NULL, NULL "
     "FROM tokens",
     "token tok-2 of 'eve': it is in the table with the scopes 'admin', but no entry of the log granted "
     "it"},
    {"DELETE FROM tokens",
     "token tok-1 of 'ci': it is not in the table, but entry 15 (token_granted) granted it"},
    {"UPDATE blocks SET lifted_us = 9",
     "block bl-1: it is lifted in the table, but no entry of the log lifted it"},
    {"UPDATE blocks SET kernel = 'kernel-a'", "block bl-1: the kernel is 'kernel-a'"},
    {"DELETE FROM blocks", "block bl-1: it is not in the table, but entry 16 (block_set) set it"},
    {"UPDATE schedules SET owner = 'cleo'", "schedule 'nightly': the owner is 'cleo'"},
    {"UPDATE schedules SET paused = 1", "schedule 'nightly': whether it is paused is 1"},
    {"UPDATE schedules SET cron = '* * * * *'", "schedule 'nightly': when it fires is '* * * * *'"},
    {"DELETE FROM schedules",
     "schedule 'nightly': it is not in the table, but entry 17 (schedule_set) set it"},
    {"UPDATE schedule_fires SET outcome = 'fired'",
     "fire of schedule 'nightly' at 30: what came of it is 'fired'"},
    {"UPDATE schedule_fires SET fire_us = 31", "fire of schedule 'nightly' at 31: entry 18 does not say it"},
    {"DELETE FROM schedule_fires",
     "fire of schedule 'nightly' at 30: it is not in the table, but entry 18 (schedule_skipped) recorded "
     "it"},
    {"UPDATE recipes SET document = '{\"contract\":\"c\"}'",
     "recipe of 'tiny': the digest of its document is"},
    {"UPDATE recipes SET revision = 2", "recipe of 'tiny': the revision is 2"},
    {"UPDATE recipes SET document = NULL",
     "recipe of 'tiny': it is not in the table, but entry 19 (recipe_set) set it"},
    {"UPDATE blobs SET bytes = CAST('another' AS BLOB)", "its bytes are those of sha256:"},
};

}  // namespace

TEST_CASE("each thing that somebody changes in a table is named with what the log says of it") {
  TempDir dir;
  const World made(dir.path() / "world");
  for (const auto& [script, words] : kChanges) {
    CAPTURE(script);
    const auto text = told(dir.path() / "world", dir.path() / "copy", script);
    CHECK_MESSAGE(text.find(words) != std::string::npos, text);
  }
  CHECK(told(dir.path() / "world", dir.path() / "copy", "").empty());
}

TEST_CASE("a comparison that is told to stop finds what it looked at, and nothing else") {
  TempDir dir;
  const World made(dir.path() / "world");
  {
    auto raw = must(store::Connection::open((dir.path() / "world/driftgate.db").string(),
                                            store::Connection::Mode::read_write, ""));
    must(raw->execute("UPDATE models SET epoch = 9; DELETE FROM schedules", "change"));
  }
  auto store = open_store(dir.path() / "world");
  int left = 3;
  const auto found = must(compare_all_tables(*store, [&] { return left-- > 0; }));
  REQUIRE(found.size() == 1);
  CHECK(found[0].where == "model 'tiny'");
  CHECK(must(compare_live_tables(*store)).size() == 1);
  CHECK(must(compare_all_tables(*store, [] { return false; })).empty());
}
