#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <algorithm>

#include "daemon/auth/tokens.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/verify/table_checks.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using evidence::Difference;

namespace {

namespace fs = std::filesystem;

constexpr int kReads = 1'100;  ///< more entries than a block of the index has

/// A model whose first promotion succeeded with waivers and an approval and whose second waits for an approval, with
/// tokens and a schedule, as it lies on the disk.
struct Told {
  Harness h;
  std::string ended, open;

  Told() {
    h.behaviour.numeric_tv = 0.1;  // the limit: undecided
    h.behaviour.numeric_spread = 0.09;
    h.set_up();
    issue_tokens();
    plan();
    ended = h.request();
    REQUIRE(h.run_until(ended, {"inconclusive"}) == "inconclusive");
    for (const char* who : {"anna", "bob"}) {
      const auto digest = h.view(ended)["waiver"]["evidence_digest"].get<std::string>();
      REQUIRE(h.pipeline->waive(who, ended, "numerical.tv", digest, "read the rows").has_value());
    }
    REQUIRE(h.run_until(ended, {"succeeded", "rejected", "errored"}) == "succeeded");
    h.behaviour.numeric_tv = 0.01;
    h.behaviour.numeric_spread = 0;
    open = h.request("newer");
    REQUIRE(h.run_until(open, {"awaiting_approval"}, false) == "awaiting_approval");
    read_often();
    h.kill();
  }

  void issue_tokens() {
    const auto issued = h.store->write("tokens", [&](store::Tx& tx) -> schema::Result<void> {
      for (const char* name : {"viola", "gone"}) {
        const auth::TokenRequest request{.name = name, .scopes = {auth::Scope::viewer}, .granted_by = "root"};
        auto token = auth::issue_token(tx, request, auth::random_secret(), h.clock.now_us_);
        if (!token) return std::unexpected(token.error());
        if (request.name != "gone") continue;
        auto revoked = auth::revoke_token(tx, token->info.id, "root", h.clock.now_us_);
        if (!revoked) return revoked;
      }
      return {};
    });
    REQUIRE(issued.has_value());
  }
  void plan() {
    const auto schedules = pipeline::stored_schedules(*h.store, [this] { return h.clock.now_us_; });
    const pipeline::ScheduleRequest wanted{
        .name = "nightly", .cron = "0 3 * * *", .request = pipeline::to_json(h.request_for("newer"))};
    REQUIRE(schedules->create("sam", wanted).has_value());
  }

  void read_often() {
    const auto read = h.store->write("reads", [&](store::Tx& tx) -> schema::Result<void> {
      for (int i = 0; i < kReads; ++i) {
        auto appended = evidence::append(tx, {.time_us = h.clock.now_us_,
                                              .kind = schema::EvidenceKind::evidence_read,
                                              .actor = "aude",
                                              .body = {{"what", "all"}}});
        if (!appended) return std::unexpected(appended.error());
      }
      return {};
    });
    REQUIRE(read.has_value());
  }

  /// What is found in a copy after a change of its database.
  std::vector<Difference> after(const char* script, bool live) const {
    const auto copy = h.folder / "copy";
    fs::remove_all(copy);
    fs::copy(h.folder / "data", copy, fs::copy_options::recursive);
    {
      auto opened = store::Connection::open((copy / "driftgate.db").string(),
                                            store::Connection::Mode::read_write, "");
      REQUIRE(opened.has_value());
      const auto changed = (*opened)->execute(script, "change");
      REQUIRE_MESSAGE(changed.has_value(), (changed ? "" : changed.error().describe()));
    }
    auto store = store::Store::open({.data_dir = copy, .opened_us = 1});
    REQUIRE_MESSAGE(store.has_value(), (store ? "" : store.error().describe()));
    auto found = live ? evidence::compare_live_tables(**store)
                      : evidence::compare_all_tables(**store, [] { return true; });
    REQUIRE_MESSAGE(found.has_value(), (found ? "" : found.error().describe()));
    return *found;
  }
};

struct Tampering {
  const char* script;
  const char* named;  ///< what a difference says
};

bool names(const std::vector<Difference>& found, std::string_view text) {
  return std::ranges::any_of(found, [&](const Difference& difference) {
    return to_text(difference).find(text) != std::string::npos;
  });
}

std::string all(const std::vector<Difference>& found) {
  std::string text;
  for (const auto& difference : found) text += "\n  " + to_text(difference);
  return text;
}

#define OPEN_STATE "state = 'awaiting_approval'"
#define ENDED_STATE "state = 'succeeded'"

/// Named before a daemon is ready.
constexpr Tampering kLive[] = {
    {"UPDATE desired_routes SET route = replace(route, ':2\"', ':66\"')", "desired route of model 'm'"},
    {"UPDATE desired_routes SET revision = revision + 1", "desired route of model 'm': revision"},
    {"DELETE FROM desired_routes", "desired route of model 'm': it is not in the table"},
    {"UPDATE applied_routes SET route = replace(route, 'candidate_bp\":', 'candidate_bp\":9')",
     "applied route of model 'm'"},
    {"UPDATE models SET incumbent = (SELECT id FROM versions WHERE engine = 'newer')", "model 'm': the incumbent"},
    {"UPDATE models SET hold = 'wait', held_by = 'eve'", "has a hold, but the log never had one"},
    {"UPDATE models SET epoch = epoch + 9", "model 'm': epoch"},
    {"PRAGMA foreign_keys = OFF; UPDATE models SET name = 'n'; UPDATE promotions SET model = 'n'", "model 'm': it is not in the table"},
    {"UPDATE versions SET base_url = 'http://127.0.0.1:66' WHERE engine = 'newer'", "the URL is"},
    {"UPDATE versions SET base_url = 'http://127.0.0.1:66' WHERE engine = 'old'", "the URL is"},
    {"UPDATE versions SET kernel = 'k-safe' WHERE engine = 'newer'", "the kernel is"},
    {"UPDATE promotions SET state = 'running' WHERE " OPEN_STATE, "the state is 'running' in the table"},
    {"UPDATE promotions SET state = 'aborted' WHERE " OPEN_STATE, "the state is 'aborted' in the table"},
    {"UPDATE promotions SET resume_state = 'nonsense' WHERE " OPEN_STATE, "it cannot be read"},
    {"UPDATE promotions SET requester = 'eve' WHERE " OPEN_STATE, "the requester is 'eve'"},
    {"UPDATE promotions SET attempt = 7 WHERE " OPEN_STATE, "the attempt is 7"},
    {"UPDATE promotions SET traffic = 'never_exposed' WHERE " OPEN_STATE, "what users saw of it"},
    {"UPDATE promotions SET baseline = candidate WHERE " OPEN_STATE, "the baseline is"},
    {"UPDATE promotions SET deadline_us = deadline_us + 1 WHERE " OPEN_STATE, "the deadline is"},
    {"UPDATE promotions SET seed = seed + 1 WHERE " OPEN_STATE, "the seed is"},
    {"UPDATE promotions SET candidate = baseline WHERE " OPEN_STATE, "the candidate is"},
    {"UPDATE contracts SET canonical = CAST(replace(CAST(canonical AS TEXT), '0.2', '0.9') AS BLOB)",
     "the digest of its document"},
    {"UPDATE tokens SET revoked_us = NULL WHERE name = 'gone'", "of 'gone': it is not revoked in the table"},
    {"UPDATE tokens SET revoked_us = 5 WHERE name = 'viola'", "no entry of the log revoked it"},
    {"UPDATE tokens SET scopes = 'admin' WHERE name = 'viola'", "of 'viola': the scopes is 'admin'"},
    {"UPDATE tokens SET scopes = 'nonsense' WHERE name = 'viola'", "of 'viola': the scopes is 'nonsense'"},
    {"UPDATE tokens SET hash = zeroblob(32) WHERE name = 'viola'", "the digest of its hash"},
    {"UPDATE tokens SET name = 'root' WHERE name = 'viola'", "whose it is is 'root'"},
    {"UPDATE tokens SET expires_us = 5 WHERE name = 'viola'", "when it expires is 5"},
    {"DELETE FROM tokens WHERE name = 'gone'", "of 'gone': it is not in the table"},
    {"INSERT INTO tokens SELECT 'tok-x', zeroblob(32), 'eve', 'admin', 'root', 5, NULL, NULL", "token tok-x of 'eve'"},
    {"INSERT INTO blocks SELECT 'bl-x', 'c', 'k-inf', digest, 'p', '', 'eve', 5, NULL, '', '', 0 FROM contracts",
     "block bl-x"},
};

/// Named in the background and by `driftgate audit verify --data-dir`.
constexpr Tampering kRest[] = {
    {"UPDATE promotions SET state = 'rejected' WHERE " ENDED_STATE, "the state is 'rejected' in the table"},
    {"UPDATE promotions SET reason = 'fine' WHERE " ENDED_STATE, "the reason is 'fine'"},
    {"UPDATE promotions SET outcome = '{}' WHERE " ENDED_STATE, "the digest of its outcome"},
    {"UPDATE promotions SET evidence_seq = 1 WHERE " ENDED_STATE, "the entry of its last change"},
    {"PRAGMA foreign_keys = OFF; DELETE FROM promotions WHERE " ENDED_STATE,
     "it is not in the table, but entry"},
    {"UPDATE verdicts SET verdict = 'pass' WHERE verdict = 'inconclusive'",
     "the verdict is 'pass' in the table"},
    {"UPDATE verdicts SET detail = replace(detail, '\"n\":', '\"n\":9')", "of its detail in the table"},
    {"DELETE FROM verdicts WHERE rowid = (SELECT min(rowid) FROM verdicts)",
     "it is not in the table, but entry"},
    {"UPDATE verdicts SET evidence_seq = evidence_seq - 1", "its entry is"},
    {"UPDATE approvals SET who = 'eve'", "it is in the table as given by 'eve'"},
    {"UPDATE approvals SET given_us = given_us + 9000000000000", "which is after entry"},
    {"DELETE FROM approvals", "it is not in the table, but entry"},
    {"UPDATE waivers SET who = 'eve' WHERE who = 'bob'", "who gave it is 'eve'"},
    {"DELETE FROM waivers WHERE who = 'bob'", "it is not in the table, but entry"},
    {"UPDATE stage_runs SET state = 'pass' WHERE state = 'inconclusive'", "the state is 'pass' in the table"},
    {"UPDATE stage_runs SET report = 'sha256:x' WHERE report <> ''", "the report is 'sha256:x'"},
    {"UPDATE kernels SET canonical = X'7b7d' WHERE name = 'k-inf'",
     "kernel 'k-inf': the digest of its document"},
    {"UPDATE kernels SET registrant = 'eve' WHERE name = 'k-inf'", "kernel 'k-inf': who registered it"},
    {"UPDATE engines SET base_url = 'http://127.0.0.1:66' WHERE name = 'newer'", "engine 'newer': the URL"},
    {"UPDATE engines SET checkpoint = 'sha256:x' WHERE name = 'newer'", "engine 'newer': the checkpoint"},
    {"UPDATE schedules SET owner = 'eve'", "schedule 'nightly': the owner is 'eve'"},
    {"UPDATE schedules SET request = replace(request, 'newer', 'old')", "schedule 'nightly': the request"},
    {"DELETE FROM schedules", "schedule 'nightly': it is not in the table"},
    {"INSERT INTO schedule_fires VALUES('nightly', 5, 'skipped', 'blackout', NULL, 'sam', 5, 3, NULL, 1, 0, "
     "NULL)",
     "fire of schedule 'nightly' at 5"},
    {"UPDATE blobs SET bytes = CAST('x' AS BLOB) WHERE digest = (SELECT min(digest) FROM blobs)",
     "its bytes are those of"},
    {"DROP TRIGGER entries_no_update; UPDATE entries SET bytes = CAST(CAST(bytes AS TEXT) || ' ' AS BLOB) WHERE seq = 1",
     "evidence entry 1: not a canonical"},
    {"DELETE FROM index_places WHERE key = (SELECT min(key) FROM index_places)",
     "the index of entries 0 to 511"},
    {"INSERT INTO index_places VALUES(0, 0, 9999, x'0500')", "a value that none of them has"},
    {"UPDATE index_nodes SET min_us = 0", "under times"},
};

}  // namespace

TEST_CASE("each change of a table is named: of what is live before a daemon is ready, the rest by the whole check") {
  const Told told;
  CHECK_MESSAGE(told.after("", true).empty(), all(told.after("", true)));
  CHECK_MESSAGE(told.after("", false).empty(), all(told.after("", false)));
  for (const auto& [script, named] : kLive) {
    CAPTURE(std::string(script));
    const auto found = told.after(script, true);
    CHECK_MESSAGE(names(found, named), all(found));
  }
  for (const auto& [script, named] : kRest) {
    CAPTURE(std::string(script));
    const auto found = told.after(script, false);
    CHECK_MESSAGE(names(found, named), all(found));
  }
}

TEST_CASE("a comparison that is told to stop gives what it found until then") {
  Harness h;
  h.set_up();
  int parts = 0;
  const auto found = evidence::compare_all_tables(*h.store, [&] { return ++parts < 3; });
  REQUIRE(found.has_value());
  CHECK(found->empty());
  CHECK(parts == 3);
}
