#include <doctest/doctest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "schema/verdict.hpp"
#include "scripted_daemon.hpp"

using namespace driftgate;
using cli::test::file_with;
using cli::test::has;
using cli::test::Ran;
using cli::test::ScriptedDaemon;
using cli::test::text_of_file;
using nlohmann::json;

namespace {

/// What a command prints of one answer; it must succeed.
std::string printed(const std::string& request, const std::string& answer,
                    const std::vector<std::string>& words) {
  ScriptedDaemon daemon;
  daemon.on(request, answer);
  const Ran ran = daemon.run(words);
  CAPTURE(ran.err);
  REQUIRE(ran.exit_code == 0);
  auto with_json = words;
  with_json.push_back("--json");
  CHECK_FALSE(json::parse(daemon.run(with_json).out, nullptr, false).is_discarded());
  return ran.out;
}

}  // namespace

TEST_CASE("lists are tables with a dash where there is nothing, and a sentence when they are empty") {
  CHECK(printed("GET /v1/engines?limit=500",
                R"({"items":[{"name":"e","url":"http://a:1","kernel":"k","checkpoint":null},
            {"name":"longer","url":"http://b:1","kernel":"k2","checkpoint":"sha256:c"}]})",
                {"engine", "list"}) ==
        "name    url         kernel  checkpoint\n"
        "e       http://a:1  k       -\n"
        "longer  http://b:1  k2      sha256:c\n");
  CHECK(printed("GET /v1/models?limit=500", R"({"items":[{"name":"m","incumbent":{"engine":"e","kernel":"k"},
            "promotion":null,"hold":{"reason":"rolled back"}}]})",
                {"model", "list"}) ==
        "name  incumbent  promotion  hold\n"
        "m     e (k)      -          rolled back\n");
  CHECK(printed("GET /v1/blocks?limit=500", R"({"items":[{"id":"bl-1","kernel":"k","checkpoint":"sha256:c",
            "promotion":"pr-1","by":"driftgate","lifted":{"by":"ada"},"reason":"nonfinite"}]})",
                {"block", "list"}) ==
        "id    kernel  checkpoint  promotion  by         lifted  reason\n"
        "bl-1  k       sha256:c    pr-1       driftgate  by ada  nonfinite\n");
  CHECK(printed("GET /v1/webhooks",
                R"({"items":[{"name":"w","url":"https://h/","pending":1,"delivered":2,"failed":3,
            "dropped":0,"disabled":{"reason":"answered 410"},"last_error":"410"}],"next":null})",
                {"webhook", "list"}) ==
        "name  url         pending  delivered  failed  dropped  disabled      last_error\n"
        "w     https://h/  1        2          3       0        answered 410  410\n");
  for (const char* collection : {"contract", "kernel", "engine", "model", "block"}) {
    CHECK(printed(std::string("GET /v1/") + collection + "s?limit=500", R"({"items":[],"next":null})",
                  {collection, "list"}) == std::string("There are no ") + collection + "s yet.\n");
  }
  CHECK(printed("GET /v1/schedules?limit=500", R"({"items":[]})", {"schedule", "list"}) ==
        "There are no schedules yet.\n");
  CHECK(
      has(printed("GET /v1/status?limit=500", R"({"items":[]})", {"status"}), "driftgate model create NAME"));
}

TEST_CASE("a list of other things than were asked for is printed as far as it goes and is no fault") {
  for (const char* items :
       {R"(["x",3,null,[]])", R"([{"name":{"a":1},"incumbent":[],"hold":7}])", "{}", "7", "null"}) {
    CAPTURE(items);
    const std::string answer = std::string(R"({"items":)") + items + "}";
    ScriptedDaemon daemon;
    for (const char* collection : {"models", "engines", "contracts", "kernels", "schedules", "blocks"})
      daemon.on(std::string("GET /v1/") + collection + "?limit=500", answer);
    daemon.on("GET /v1/tokens", answer);
    for (const std::vector<std::string>& words : {std::vector<std::string>{"status"},
                                                  {"model", "list"},
                                                  {"engine", "list"},
                                                  {"contract", "list"},
                                                  {"kernel", "list"},
                                                  {"schedule", "list"},
                                                  {"block", "list"},
                                                  {"token", "list"}}) {
      CAPTURE(words.front());
      CHECK(daemon.run(words).exit_code == 0);
    }
  }
}

TEST_CASE(
    "pages are followed by their cursor, and a daemon that never ends a list does not keep a command for "
    "ever") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/kernels?limit=500", R"({"items":[{"name":"a"}],"next":"x&y"})");
  daemon.on("GET /v1/kernels?limit=500&after=x&y", R"({"items":[{"name":"b"}],"next":null})");
  CHECK(daemon.run({"kernel", "list"}).out == "name  digest\na     -\nb     -\n");
  ScriptedDaemon endless;
  endless.on("GET /v1/evidence?limit=100", R"({"items":[],"next":"1"})");
  endless.on("GET /v1/evidence?limit=100&after=1", R"({"items":[],"next":"1"})");
  CHECK(endless.run({"evidence"}).exit_code == 0);
  CHECK(endless.run({"audit", "query"}).exit_code == 0);
  CHECK(endless.requests().size() <= 4);
}

TEST_CASE("the status of all models shows where each promotion stands and why a model is held") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/models?limit=500",
            R"({"items":[{"name":"a","incumbent":{"engine":"e"},"promotion":"pr-1","hold":null,
                "route":{"desired":{},"observed":{"candidate_bp":250},"agree":true}},
               {"name":"b","incumbent":null,"promotion":"pr-2","hold":{"reason":"rolled back"},"route":null},
               {"name":"c","promotion":null,"route":{"observed":{"route":{"candidate_bp":10000}}}}]})");
  daemon.on("GET /v1/promotions/pr-1", R"({"id":"pr-1","state":"running","stage":"canary"})");
  CHECK(daemon.run({"status"}).out ==
        "model  incumbent  promotion  standing        candidate  hold\n"
        "a      e          pr-1       running canary  2.5%       -\n"
        "b                 pr-2       -               -          rolled back\n"
        "c                 -          -               100%       -\n");
}

TEST_CASE("the status of one model says what is served, what waits, and how to lift its hold") {
  CHECK(printed("GET /v1/models/m", R"({"name":"m","incumbent":{"engine":"e","kernel":"k","url":"http://a:1"},
            "promotion":null,"hold":{"reason":"rolled back"},"route":{"observed":{"candidate_bp":0},"agree":false}})",
                {"status", "m"}) ==
        "model m\n"
        "  incumbent   e (kernel k, http://a:1)\n"
        "  promotion   none\n"
        "  hold        rolled back (lift it: driftgate model lift-hold m --reason …)\n"
        "  route       candidate 0%, NOT yet read back as desired\n");
  CHECK(has(
      printed("GET /v1/models/m", R"({"name":"m","promotion":"pr-3","route":{"agree":true,"observed":null}})",
              {"status", "m"}),
      "  promotion   pr-3\n  route       candidate -, read back as desired\n"));
}

TEST_CASE("the status of a model shows its guard, what is nearest to an alarm first") {
  const std::string armed =
      R"({"name":"m","promotion":null,"guard":{"id":"gd-1","promotion":"pr-1","armed":true,
      "since_us":1790000000000000,"mean_time_between_false_alarms_ms":31536000000,"alarms":1,
      "watches":[{"clause":"runtime.errors","slice":"","limit":0.0113,"seen":1200,"events":12,"value":0.001,"needed":2.5,
                  "alarming":false},
                 {"clause":"runtime.errors","slice":"language=de","limit":0.02,"seen":300,"events":60,"value":90,
                  "needed":34,"alarming":true}],
      "probes":{"armed":true,"alarming":false,"value":1e-6,"needed":5,"compared":8640,"newest_us":1790000010000000,
                "why_none":null},
      "identity":{"members":{"version.version":"1"},"changes":[],"newest_us":1790000020000000},
      "orders":{"pending":null,"all_on_fallback":true,"slices_on_fallback":[]}}})";
  CHECK(
      printed("GET /v1/models/m", armed, {"status", "m"}) ==
      "model m\n"
      "  incumbent    (kernel , )\n"
      "  promotion   none\n"
      "  guard       since 2026-09-21 14:13:20, promotion pr-1, one false alarm in 365 d, 1 alarms\n"
      "    ALARM runtime.errors on language=de: 90 of 34 needed; 60 of 300 keys, limit 2%\n"
      "    runtime.errors: 0.001 of 2.5 needed; 12 of 1200 keys, limit 1.13%\n"
      "    golden probes: 1e-06 of 5 needed; 8640 compared, newest 2026-09-21 14:13:30\n"
      "    identity: 1 members as promoted, newest 2026-09-21 14:13:40\n"
      "    all traffic is on the fallback kernel (bring it back: driftgate model lift-hold m --reason …)\n");
  const std::string ended =
      R"({"name":"m","guard":{"armed":false,"ended_us":1790000000000000,"reason":"rolled back"}})";
  CHECK(has(printed("GET /v1/models/m", ended, {"status", "m"}),
            "  guard       ended 2026-09-21 14:13:20: rolled back\n"));
  const std::string rescored =
      R"({"name":"m","guard":{"armed":true,"rescoring":{"why_none":null,"reference":"train-1","answers":120,
      "newest_us":1790000010000000,"unanswered_why":"nobody listens","watches":[{"clause":"statistical.tv",
      "slice":"language=de","limit_kind":"max","limit":0.05,"answers":30,"figure":0.0721,"value":90,"needed":20,
      "alarming":true}]}}})";
  CHECK(
      has(printed("GET /v1/models/m", rescored, {"status", "m"}),
          "    answers scored again by train-1: 120, newest 2026-09-21 14:13:30\n"
          "      an engine did not score the last one: nobody listens\n"
          "      ALARM statistical.tv on language=de: 90 of 20 needed; 0.0721 over 30 answers, max 0.05\n"));
  const std::string alone =
      R"({"name":"m","guard":{"armed":true,"rescoring":{"why_none":"no other engine"}}})";
  CHECK(has(printed("GET /v1/models/m", alone, {"status", "m"}),
            "    no answers are scored again: no other engine\n"));
  const std::string changed =
      R"({"name":"m","guard":{"armed":true,"probes":{"why_none":"no texts"},"identity":{"members":
      {"v":"1"},"changes":[{"name":"v","promoted":"1","now":"2"},{"name":"w","promoted":"a","now":""}]},
      "orders":{"pending":{"action":"rollback","reason":"r"}}}})";
  const std::string text = printed("GET /v1/models/m", changed, {"status", "m"});
  CHECK(has(text, "    no golden probes: no texts\n"));
  CHECK(has(text, "    ALARM identity: v was \"1\" and is \"2\"\n"));
  CHECK(has(text, "    ALARM identity: w was \"a\" and is no longer told\n"));
  CHECK(has(text, "    ordered and not done yet: rollback (r)\n"));
}

TEST_CASE("what was registered is said in a sentence, with what an engine cannot do below it") {
  const std::string file = file_with("{}");
  CHECK(printed("POST /v1/contracts", R"({"name":"c","digest":"sha256:c"})",
                {"contract", "register", file}) == "contract c is registered as sha256:c\n");
  CHECK(printed("POST /v1/kernels", R"({"name":"k","digest":"sha256:k"})", {"kernel", "register", file}) ==
        "kernel k is registered as sha256:k\n");
  CHECK(printed("POST /v1/engines",
                R"({"name":"e","url":"http://a:1","abilities":{"notes":["no stream","no \u001b[1mids"]}})",
                {"engine", "register", "e", "--engine-url", "http://a:1", "--kernel", "k"}) ==
        "engine e at http://a:1 is registered\n  no stream\n  no  [1mids\n");
  CHECK(printed("POST /v1/engines",
                R"({"name":"e","url":"https://a:1","key_file":"/f/k","abilities":{"notes":[]}})",
                {"engine", "register", "e", "--engine-url", "https://a:1", "--kernel", "k",
                 "--engine-key-file", "k"}) ==
        "engine e at https://a:1 is registered; it gets the key in /f/k in place of users' own\n");
  CHECK(printed("POST /v1/models", R"({"name":"m","incumbent":{"engine":"e"}})",
                {"model", "create", "m", "--engine", "e", "--reason", "first"}) ==
        "model m is served by engine e (no claim of conformity)\n");
  CHECK(printed("POST /v1/models/m/lift-hold", "{}", {"model", "lift-hold", "m", "--reason", "looked"}) ==
        "the hold on model m is lifted\n");
  CHECK(printed("POST /v1/blocks/bl-1/lift", R"({"kernel":"k","contract":"sha256:c"})",
                {"block", "lift", "bl-1", "--reason", "looked"}) ==
        "block bl-1 is lifted: kernel k can be promoted again under sha256:c\n");
  CHECK(printed("POST /v1/webhooks/w/test", "{}", {"webhook", "test", "w"}) ==
        "a test message for w is queued; `driftgate webhook list` shows whether it was delivered\n");
  CHECK(printed("POST /v1/webhooks/w/enable", "{}", {"webhook", "enable", "w"}) ==
        "delivery to webhook w is enabled again\n");
  CHECK(printed("POST /v1/backups", R"({"folder":"/b/1","tree_size":12})", {"backup", "--name", "1"}) ==
        "/b/1 contains a log with 12 entries and its signed head; it contains no keys\n");
}

TEST_CASE("options arrive in the daemon as they were given, and those that were not do not") {
  ScriptedDaemon daemon;
  const std::vector<std::string> engine{"engine",     "register", "e", "--engine-url",
                                        "http://a:1", "--kernel", "k"};
  const auto sent = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    (void)daemon.run(words);
    REQUIRE_FALSE(daemon.requests().empty());
    return json::parse(daemon.requests().back().body);
  };
  CHECK(sent(engine, {}) == json::parse(R"({"name":"e","url":"http://a:1","kernel":"k","checkpoint":{}})"));
  CHECK(
      sent(engine, {"--checkpoint", "/w", "--max-requests-per-second", "7"}) ==
      json::parse(
          R"({"name":"e","url":"http://a:1","kernel":"k","checkpoint":{"uri":"/w"},"max_requests_per_second":7})"));
  CHECK(sent(engine, {"--checkpoint-digest", "sha256:d"})["checkpoint"] == json{{"digest", "sha256:d"}});
  const auto gated =
      sent(engine, {"--engine-key-file", "k", "--engine-key-header", "X-Api-Key", "--ca-file", "c"});
  CHECK(gated["key_file"] == "k");
  CHECK(gated["key_header"] == "X-Api-Key");
  CHECK(gated["ca_file"] == "c");
  CHECK(sent({"backup"}, {}) == json::object());
  CHECK(sent({"token", "issue", "--name", "bob", "--scope", "viewer,auditor", "--scope", "admin"}, {}) ==
        json::parse(R"({"name":"bob","scopes":["viewer","auditor","admin"]})"));
  CHECK(sent({"token", "issue", "--name", "bob", "--scope", "viewer"},
             {"--expires-in", "60"})["expires_in_s"] == 60);
  const std::vector<std::string> promote{"promote", "m", "--engine", "e", "--contract", "c"};
  CHECK(sent(promote, {}) == json::parse(R"({"model":"m","engine":"e","contract":"c"})"));
  CHECK(sent(promote, {"--note", "n", "--fallback-engine", "f"}) ==
        json::parse(R"({"model":"m","engine":"e","contract":"c","note":"n","fallback_engine":"f"})"));
  CHECK(sent(promote, {"--numeric-train", "a", "--numeric-inf", "b", "--numeric-corpus", "c", "--slice-train",
                       "d", "--slice-adapter", "torch", "--slice-floor-inf", "x", "--slice-floor-train",
                       "y"})["captures"] == json::parse(R"({"numeric":{"train":"a","inf":"b","corpus":"c"},
                        "slice":{"train":"d","inf":{"adapter":"torch"},"floor":{"inf":"x","train":"y"}}})"));
  CHECK(sent({"promote", "--request", file_with(R"({"model":"of the file"})")}, {})["model"] ==
        "of the file");
}

TEST_CASE("a plan says what would run, for how long, what it takes to pass, and what could not be decided") {
  const std::string plan = R"({"engine":"e","model":"m","contract_name":"c","locks":{"held_by":"pr-7"},
      "supersedes":["pr-8"],
      "stages":[{"stage":"offline-numeric","run":2,"plan":null,"clauses":[
                   {"clause":"numerical.kl","severity":"hard","needs":[
                      {"n":43,"unit":"sequences","alpha":0.025,"why":"betting"},{"n":null,"why":"no corpus was given"}]},
                   {"clause":"numerical.tv","severity":"soft"}]},
                {"stage":"shadow-runtime","run":1,"plan":{"mirror_bp":5000,"min_duration_ms":4000,"max_duration_ms":60500},"clauses":[]},
                {"stage":"canary","run":3,"plan":{"steps":[{"share_bp":100,"approvals":0},{"share_bp":5000,"approvals":1},
                   {"share_bp":10000,"approvals":2}],"soak_ms":1000,"min_keys":20,"bake_ms":2500}}],
      "unfit":[{"stage":"statistical-slice","message":"12 sequences where 43 are needed"}],
      "undecidable":[{"severity":"hard","message":"observability.coverage cannot be decided"},
                     {"severity":"soft","message":"runtime.gaps cannot be decided"}]})";
  const std::string wanted =
      "e for m under the contract c: a plan, nothing was changed.\n"
      "It would wait for pr-7 to end.\n"
      "It would take the place of pr-8, which is queued.\n"
      "\noffline-numeric\n"
      "  run 2 of this checkpoint and kernel under this contract; captures that an earlier run measured get "
      "its "
      "verdicts and spend nothing\n"
      "  numerical.kl\n"
      "      at least 43 sequences at α = 0.025: betting\n"
      "      no corpus was given\n"
      "  numerical.tv (soft, does not block)\n"
      "\nshadow-runtime\n"
      "  mirrors 50% of requests for 4 s to 60.5 s\n"
      "  nothing is demanded here\n"
      "\ncanary\n"
      "  run 3 of this checkpoint and kernel under this contract\n"
      "  1% → 50% (after 1 approval) → 100% (after 2 approvals), each for at least 1 s and 20 keys, then 2.5 "
      "s of bake\n"
      "  nothing is demanded here\n"
      "\nClauses that the corpora given cannot decide, or seldom would\n"
      "  statistical-slice: 12 sequences where 43 are needed\n"
      "\nClauses that cannot be decided for lack of an engine's ability\n"
      "  observability.coverage cannot be decided\n"
      "  runtime.gaps cannot be decided (soft, does not block)\n";
  const std::vector<std::string> words{"promote", "m", "--engine", "e", "--contract", "c", "--dry-run"};
  CHECK(printed("POST /v1/promotions?dry_run=true", plan, words) == wanted);
  const std::string small =
      printed("POST /v1/promotions?dry_run=true", R"({"engine":"e","model":"m"})", words);
  CHECK(has(small, "It would start at once.\n"));
  CHECK(has(small, "large enough for every clause"));
}

TEST_CASE(
    "an explanation names the clauses that stand in the way first, with their figures and what would change "
    "them") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/promotions/pr-1",
            R"({"id":"pr-1","model":"m","contract_name":"c","candidate":{"engine":"e"},"state":"rejected",
                "reason":"numerical.kl is violated","traffic":"reverted",
                "stages":[{"stage":"offline-numeric","attempt":2,"state":"violated","summary":null},
                          {"stage":"canary","state":"stopped","summary":{"open":[
                             {"verdict":"inconclusive","clause":"runtime.errors","message":"12 of 40 keys"}]}}]})");
  schema::ClauseVerdict clause;
  clause.clause = "numerical.kl";
  clause.where = {{"language", "de"}};
  clause.role = schema::SliceRole::critical;
  clause.verdict = schema::Verdict::violated;
  clause.rule = schema::VerdictRule::limits;
  clause.n = 10;
  clause.clusters = 5;
  clause.estimate = 0.3;
  clause.lower = 0.2;
  clause.upper = 0.4;
  clause.threshold = 0.1;
  clause.limit_kind = "max";
  clause.alpha = 0.05;
  clause.method = "betting";
  clause.approximate = true;
  clause.message = "0.3 is over 0.1";
  json verdict = json::parse(schema::to_json(clause));
  clause.verdict = schema::Verdict::pass;
  json pass = json::parse(schema::to_json(clause));
  daemon.on("GET /v1/promotions/pr-1/stages/offline-numeric/report",
            json{{"verdicts", {pass, verdict, "no verdict", {{"odd", 1}}}}}.dump());
  const Ran ran = daemon.run({"explain", "pr-1"});
  CAPTURE(ran.out);
  CAPTURE(ran.err);
  CHECK(ran.exit_code == 0);
  CHECK(
      ran.out.starts_with("Promotion pr-1 asks whether e may serve m under the contract c.\n"
                          "It is rejected: numerical.kl is violated\n"
                          "Users were served by it and are no more.\n"
                          "\noffline-numeric (attempt 2): violated\n"));
  CHECK(has(ran.out,
            "  violated numerical.kl on language=de\n      0.3 is over 0.1\n"
            "      decided by betting, α = 0.05, approximate\n      to pass: "));
  CHECK(has(ran.out, "  1 clauses pass\n"));
  CHECK(ran.out.ends_with("canary (attempt 1): stopped\n  inconclusive runtime.errors: 12 of 40 keys\n"));
  json as_json = json::parse(daemon.run({"explain", "pr-1", "--json"}).out);
  CHECK(as_json["stages"].size() == 2);
  CHECK(as_json["stages"][0]["verdicts"].size() == 2);
  CHECK_FALSE(as_json["stages"][0]["verdicts"][1]["to_pass"].get<std::string>().empty());
}

TEST_CASE("a promotion is explained also while it has no report yet, whoever was served by it") {
  for (const auto& [traffic, words] : {std::pair("never_exposed", "No user was served by it."),
                                       std::pair("live", "Users are served by it.")}) {
    for (const char* stages :
         {"[]", "null", R"([{"stage":"canary","state":"running","summary":null}])",
          R"([{"stage":"canary","state":"running","summary":"later"}])", R"(["canary"])"}) {
      CAPTURE(stages);
      ScriptedDaemon daemon;
      daemon.on("GET /v1/promotions/pr-1",
                std::string(R"({"id":"pr-1","state":"running","reason":"","traffic":")") + traffic +
                    R"(","stages":)" + stages + "}");
      const Ran ran = daemon.run({"explain", "pr-1"});
      CAPTURE(ran.err);
      CHECK(ran.exit_code == 0);
      CHECK(has(ran.out, "It is running.\n" + std::string(words)));
    }
  }
}

TEST_CASE("what-if exits with the verdict that another contract would give and lists what it changes") {
  const std::string contract = file_with("  \n{\"kind\":\"KernelContract\"}");
  for (const auto& [verdict, code] :
       {std::pair("pass", 0), std::pair("violated", 1), std::pair("inconclusive", 3), std::pair("error", 4),
        std::pair("maybe", 4), std::pair("", 4)}) {
    ScriptedDaemon daemon;
    daemon.on(
        "POST /v1/promotions/pr-1/what-if",
        std::string(R"({"verdict":")") + verdict +
            R"(","stages":[{"stage":"offline-numeric","attempt":1,"before":"pass","after":"violated","same":4,
                     "rules":{"before":1,"after":2},"changes":[
                       {"clause":"numerical.kl","slice":"language=de","before":"pass","after":"violated","message":"m1"},
                       {"clause":"numerical.tv","before":null,"after":"pass","message":"m2"},
                       {"clause":"numerical.js","before":"pass","after":"","message":"m3"}]}],
                   "not_begun":["canary",7]})");
    const Ran ran = daemon.run({"what-if", "--promotion", "pr-1", "--contract", contract});
    CAPTURE(ran.err);
    CHECK(ran.exit_code == code);
    CHECK(ran.out ==
          "offline-numeric (attempt 1): pass → violated\n"
          "  numerical.kl on language=de: pass → violated\n      m1\n"
          "  numerical.tv: not decided → pass\n      m2\n"
          "  numerical.js: pass → not required\n      m3\n"
          "  4 verdicts are the same; decided by version 2 of the rules, before by version 1\n"
          "canary: required, but the promotion did not reach it\n"
          "7: required, but the promotion did not reach it\n"
          "Under this contract: " +
              std::string(verdict) + ". Nothing was run and nothing has changed.\n");
    CHECK(daemon.requests().back().header("Content-Type") == "application/json");
    (void)daemon.run({"what-if", "--promotion", "pr-1", "--contract", file_with("kind: KernelContract\n")});
    CHECK(daemon.requests().back().header("Content-Type") == "application/yaml");
  }
}

TEST_CASE(
    "an approval without a digest is of what was printed, and there is none of what waits for nothing") {
  ScriptedDaemon daemon;
  const std::string seen =
      R"({"id":"pr-1","model":"m","state":"awaiting_approval","approval":{"needed":1,"evidence_digest":"sha256:seen"}})";
  daemon.on("GET /v1/promotions/pr-1", seen);
  daemon.on("POST /v1/promotions/pr-1/approve", R"({"id":"pr-1","model":"m","state":"running"})");
  const Ran ran = daemon.run({"approve", "pr-1", "--reason", "read \"it\""});
  CHECK(ran.exit_code == 0);
  CHECK(ran.out.find("pr-1  m  awaiting_approval") < ran.out.find("pr-1  m  running"));
  CHECK(json::parse(daemon.requests().back().body) ==
        json{{"evidence_digest", "sha256:seen"}, {"reason", "read \"it\""}});
  const Ran as_json = daemon.run({"approve", "pr-1", "--reason", "read", "--json"});
  CHECK(json::parse(as_json.out)["state"] == "running");
  daemon.on("POST /v1/promotions/pr-1/approve", R"({"code":"conflict","detail":"the evidence has changed"})",
            409);
  const Ran changed = daemon.run({"approve", "pr-1", "--reason", "read"});
  CHECK(changed.exit_code == 4);
  CHECK(changed.err == "driftgate: the evidence has changed\n");
}

TEST_CASE("a waiver is of the only clause that is open, or of the one that is named") {
  const std::string path = "/v1/promotions/pr-1";
  const auto waived = [&](const char* clauses, const std::vector<std::string>& more) {
    ScriptedDaemon daemon;
    daemon.on(
        "GET " + path,
        std::string(
            R"({"id":"pr-1","state":"inconclusive","waiver":{"needed":2,"evidence_digest":"sha256:w","clauses":)") +
            clauses + "}}");
    daemon.on("POST " + path + "/waive", R"({"id":"pr-1","state":"inconclusive"})");
    std::vector<std::string> words{"waive", "pr-1", "--reason", "known"};
    words.insert(words.end(), more.begin(), more.end());
    Ran ran = daemon.run(words);
    if (ran.exit_code == 0) ran.err = daemon.requests().back().body;
    return ran;
  };
  CHECK(waived(R"([{"clause":"a.b"}])", {}).err ==
        R"({"clause":"a.b","evidence_digest":"sha256:w","reason":"known"})");
  CHECK(waived(R"([{"clause":"a.b"},{"clause":"c.d"}])", {"--clause", "c.d", "--evidence", "sha256:mine"})
            .err == R"({"clause":"c.d","evidence_digest":"sha256:mine","reason":"known"})");
  const Ran several = waived(R"([{"clause":"a.b"},{"clause":"c.d"}])", {});
  CHECK(several.exit_code == 4);
  CHECK(several.err == "driftgate: several clauses are inconclusive; name one with --clause: a.b, c.d\n");
  const Ran none = waived("[]", {});
  CHECK(none.exit_code == 4);
  CHECK(none.err == "driftgate: promotion pr-1 has no clause to waive: it is inconclusive\n");
}

TEST_CASE("a schedule is shown with what came of its fire times, and changed at the revision that was seen") {
  ScriptedDaemon daemon;
  const std::string nightly =
      R"({"name":"nightly","model":"m","cron":"0 2 * * *","timezone":"Europe/Berlin","misfire":"skip",
      "grace_s":0,"if_running":"queue","owner":"ada","promotion":{"model":"m"},"revision":7,"next_us":1769817600000000,
      "fires":[{"fire_us":0,"outcome":"skipped","why":"running","reason":"pr-1 runs","missed":2,"promotion":null},
               {"fire_us":86400000000,"outcome":"started","why":"","promotion":"pr-2"},
               {"fire_us":172800000000,"outcome":"fired","why":"on time","promotion":"pr-3","standing":
                {"state":"rejected","stage":"canary","traffic":"reverted","ended_us":172860000000,"why":"It was rejected."}}],
      "warnings":["m is on hold"]})";
  daemon.on("GET /v1/schedules/nightly", nightly);
  daemon.on("PUT /v1/schedules/nightly", nightly);
  daemon.on("POST /v1/schedules/nightly/pause", R"({"name":"nightly","paused":true,"revision":8})");
  daemon.on("DELETE /v1/schedules/nightly", "", 204);
  daemon.on("GET /v1/schedules/nightly/next?count=2",
            R"({"items":[{"fire_us":0,"local":"1970-01-01 01:00:00 CET"}]})");
  daemon.on("GET /v1/schedules?limit=500",
            R"({"items":[)" + nightly + R"(,{"name":"once","paused":false,"next_us":null},
      {"name":"odd","paused":"yes"}]})");
  const std::string shown = daemon.run({"schedule", "show", "nightly"}).out;
  CHECK(shown.starts_with("name        nightly\ncron        0 2 * * *\ntimezone    Europe/Berlin\n"));
  CHECK(has(shown, "promotion   {\"model\":\"m\"}\nnext        2026-01-31 00:00:00\n"));
  CHECK(has(shown, "  1970-01-01 00:00:00  skipped  running, 2 missed before it: pr-1 runs\n"));
  CHECK(has(shown, "  1970-01-02 00:00:00  started  pr-2\n"));
  CHECK(has(shown,
            "  1970-01-03 00:00:00  fired    pr-3 on time, rejected, reverted at 1970-01-03 00:01:00\n"
            "    It was rejected.\n"));
  CHECK(daemon.run({"schedule", "list"}).out ==
        "name     model  cron       timezone       next (UTC)           owner\n"
        "nightly  m      0 2 * * *  Europe/Berlin  2026-01-31 00:00:00  ada\n"
        "once                                      never\n"
        "odd                                       never\n");
  CHECK(has(daemon.run({"schedule", "pause", "nightly"}).out, "next        paused\n"));
  CHECK(daemon.requests().back().header("If-Match") == "\"7\"");
  CHECK(daemon.run({"schedule", "delete", "nightly"}).out == "schedule nightly is deleted\n");
  CHECK(daemon.requests().back().header("If-Match") == "\"7\"");
  CHECK(daemon.run({"schedule", "delete", "nightly", "--json"}).out == "{\"deleted\":\"nightly\"}\n");
  CHECK(daemon.run({"schedule", "next", "nightly", "--count", "2"}).out ==
        "1970-01-01 00:00:00 UTC  1970-01-01 01:00:00 CET\n");
  const std::string request = file_with(R"({"model":"m"})");
  const Ran changed = daemon.run({"schedule", "change", "nightly", "--cron", "* * * * *"});
  CHECK(changed.exit_code == 0);
  CHECK(changed.err == "driftgate: warning: m is on hold\n");
  CHECK(daemon.requests().back().header("If-Match") == "\"7\"");
  // What is not named stays as it is.
  CHECK(json::parse(daemon.requests().back().body) ==
        json::parse(R"({"cron":"* * * * *","timezone":"Europe/Berlin","misfire":"skip","grace_s":0,
                        "if_running":"queue","promotion":{"model":"m"}})"));
  daemon.on("POST /v1/schedules", nightly, 201);
  CHECK(daemon.run({"schedule", "create", "x", "--cron", "* * * * *", "--request", request}).exit_code == 0);
  CHECK(json::parse(daemon.requests().back().body) ==
        json::parse(R"({"name":"x","cron":"* * * * *","promotion":{"model":"m"}})"));
  const std::size_t before = daemon.requests().size();
  const Ran damaged =
      daemon.run({"schedule", "create", "x", "--cron", "* * * * *", "--request", file_with("{\"a\":")});
  CHECK(damaged.exit_code == 4);
  CHECK(has(damaged.err, "is not valid JSON"));
  CHECK(daemon.requests().size() == before);
}

TEST_CASE("a report of the schedules is a table of every fire time") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/schedules/report?since_us=1769817600000000&model=m",
            R"({"since_us":1769817600000000,"until_us":1769904000000000,"model":"m",
      "totals":{"times":3,"fired":1,"skipped":1,"pending":0,"unrecorded":1,"need_people":2,
                "skipped_by":{"refused":1},"promotions":{"succeeded":1}},
      "items":[{"schedule":"nightly","model":"m","fire_us":1769824800000000,"outcome":"fired","why":"on time","reason":null,
                "promotion":"pr-1","duration_ms":5400000,"needs":[],"standing":{"state":"succeeded","stage":"canary",
                "traffic":"live","ended_us":1769830200000000,"why":"It succeeded."}},
               {"schedule":"other","model":"m","fire_us":1769828400000000,"outcome":"skipped","why":"refused",
                "reason":"m is on hold","promotion":null,"duration_ms":null,"standing":null,
                "needs":[{"action":"change_schedule","scope":"promoter","text":"Mend it."}]},
               {"schedule":"other","model":"m","fire_us":1769832000000000,"outcome":"unrecorded",
                "why":"nothing is recorded of it","reason":null,"promotion":null,"duration_ms":null,"standing":null,
                "needs":[{"action":"look_into","scope":"operator","text":"Check the record."}]}]})");
  const auto shown = daemon.run({"schedule", "report", "--since", "2026-01-31", "--model", "m"}).out;
  CHECK(shown.starts_with(
      "2026-01-31 00:00:00 to 2026-02-01 00:00:00: 3 fire times, 1 fired (1 succeeded), 1 skipped "
      "(1 refused), 1 NOT RECORDED; 2 need people\n"));
  CHECK(has(shown, "2026-01-31 02:00:00  nightly   m      fired       pr-1       succeeded, live  90 min"));
  CHECK(has(shown, "refused: m is on hold      promoter: Mend it."));
  CHECK(has(shown, "unrecorded"));
  CHECK(daemon.run({"schedule", "report", "--since", "yesterday"}).exit_code != 0);
}

TEST_CASE("a token is kept by its owner alone, and one that cannot be written is taken back") {
  ScriptedDaemon daemon;
  daemon.on("POST /v1/tokens", R"({"id":"tok-2","name":"bob","bearer":"dg_secret"})", 201);
  daemon.on("DELETE /v1/tokens/tok-2", "", 204);
  const std::vector<std::string> issue{"token", "issue", "--name", "bob", "--scope", "viewer"};
  CHECK(daemon.run(issue).out == "dg_secret\n");
  auto into = issue;
  const std::string path = file_with("") + ".bearer";
  into.insert(into.end(), {"--out", path});
  CHECK(daemon.run(into).out == "token tok-2 for bob is in " + path + "\n");
  CHECK(text_of_file(path) == "dg_secret\n");
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const Ran again = daemon.run(into);
  CHECK(again.exit_code == 74);
  CHECK(has(again.err, "cannot create " + path + ": File exists"));
  CHECK_FALSE(has(again.out + again.err, "dg_secret"));
  CHECK(daemon.asked().back() == "DELETE /v1/tokens/tok-2");
  into.back() = path + "/below";
  into.push_back("--json");
  const Ran nowhere = daemon.run(into);
  CHECK(nowhere.exit_code == 74);
  CHECK_FALSE(has(nowhere.out + nowhere.err, "dg_secret"));
  daemon.on("GET /v1/tokens",
            R"({"items":[{"id":"tok-1","name":"ada","scopes":["viewer","admin"],"granted_by":"driftgate",
      "created_us":0,"expires_us":86400000000,"revoked_us":null}]})");
  CHECK(daemon.run({"token", "list"}).out ==
        "id     name  scopes        granted by  created  expires              revoked\n"
        "tok-1  ada   viewer,admin  driftgate   -        1970-01-02 00:00:00  -\n");
  CHECK(daemon.run({"token", "revoke", "tok-2"}).out == "token tok-2 is revoked\n");
  CHECK(daemon.run({"token", "revoke", "tok-2", "--json"}).out == "{\"revoked\":\"tok-2\"}\n");
}
