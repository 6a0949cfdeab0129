#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/cli/command_line.hpp"
#include "scripted_daemon.hpp"

using namespace driftgate;
using cli::test::file_with;
using cli::test::has;
using cli::test::Ran;
using cli::test::run_captured;
using cli::test::ScriptedDaemon;
using cli::test::text_of_file;
using nlohmann::json;

namespace {

const std::string kTrust =
    R"({"v":1,"keys":[{"use":"head","name":"a","from_us":0,"key":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="}]})";

}  // namespace

TEST_CASE("every filter of an audit query reaches the daemon, encoded, and times as microseconds") {
  ScriptedDaemon daemon;
  const std::string target =
      "GET "
      "/v1/evidence?model=a&b=c&promotion=pr-1&stage=canary&checkpoint=sha256:c&contract=sha256:d&kernel=k"
      "&kind=note&actor=ada "
      "lovelace&clause=a.b&verdict=pass&order=newest&from_us=0&to_us=86400000000&limit=3";
  daemon.on(target,
            R"({"items":[{"seq":7,"kind":"note","time_us":0,"body":{"message":"x"}}],"tree_size":12})");
  const std::vector<std::string> words{
      "audit",  "query",        "--model",  "a&b=c",        "--promotion", "pr-1",       "--stage",
      "canary", "--checkpoint", "sha256:c", "--contract",   "sha256:d",    "--kernel",   "k",
      "--kind", "note",         "--actor",  "ada lovelace", "--clause",    "a.b",        "--verdict",
      "pass",   "--newest",     "--from",   "1970-01-01",   "--to",        "1970-01-02", "--limit",
      "3"};
  const Ran ran = daemon.run(words);
  CAPTURE(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.out ==
        "     7  1970-01-01 00:00:00  note                                     — x\nof a log with 12 "
        "entries\n");
}

TEST_CASE("a query asks for what is left and no more, page after page") {
  ScriptedDaemon daemon;
  json items = json::array();
  for (int i = 0; i < 500; ++i) items.push_back({{"seq", i}, {"kind", "note"}});
  daemon.on("GET /v1/evidence?limit=500", json{{"items", items}, {"next", "499"}, {"tree_size", 900}}.dump());
  daemon.on(
      "GET /v1/evidence?limit=2&after=499",
      R"({"items":[{"seq":500,"kind":"note"},{"seq":501,"kind":"note"}],"next":"501","tree_size":901})");
  const Ran ran = daemon.run({"audit", "query", "--limit", "502"});
  CHECK(std::ranges::count(ran.out, '\n') == 503);
  CHECK(ran.out.ends_with("of a log with 901 entries\n"));
  const Ran as_json = daemon.run({"audit", "query", "--limit", "502", "--json"});
  CHECK(std::ranges::count(as_json.out, '\n') == 502);
  CHECK(json::parse(as_json.out.substr(0, as_json.out.find('\n')))["seq"] == 0);
  CHECK(daemon.requests().size() == 4);
}

TEST_CASE("times that are none are refused before a daemon is asked") {
  ScriptedDaemon daemon;
  const std::vector<std::vector<std::string>> commands = {
      {"audit", "query", "--from", "yesterday"},
      {"audit", "query", "--to", "2026-02-30"},
      {"audit", "exceptions", "--from", "12:00"},
      {"audit", "at", "m", "noon"},
      {"audit", "population", "--from", "2026-01-01", "--to", "2026-13-01"},
      {"audit", "sample", "--seed", "s", "--from", "-1"},
      {"audit", "export", "--from", "2026-01-01", "--to", "tomorrow", "--out", file_with("") + ".b"},
  };
  for (const auto& words : commands) {
    CAPTURE(words[1]);
    const Ran ran = daemon.run(words);
    CHECK(ran.exit_code == 4);
    CHECK(has(ran.err, "is not a time: write 2026-01-31, 2026-01-31T12:00:05 (UTC) or now"));
  }
  CHECK(daemon.requests().empty());
}

TEST_CASE(
    "what served a model is told with the people and verdicts behind it, and loudly when nothing allowed "
    "it") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/audit/at?model=m&time_us=5000000",
            R"({"model":"m","time_us":5000000,"tree_size":40,"applied":{"seq":3,"time_us":1000000},"served":[
                {"role":"incumbent","version":"ve-1","kernel":"k","share_bp":9750,"since":{"seq":2,"time_us":0},"allowed":true,
                 "origin":{"how":"bootstrap","actor":"ada","seq":2,"reason":"first","checkpoint":"sha256:c"}},
                {"role":"candidate","version":"ve-2","kernel":"k2","share_bp":250,"since":null,"allowed":true,
                 "origin":{"how":"promotion","promotion":"pr-1","requester":"bob","requested":{"seq":4,"time_us":0},
                   "contract":"sha256:d","checkpoint":"sha256:e","state":{"state":"succeeded","seq":9,"time_us":2000000},
                   "verdicts":[{"seq":5,"stage":"canary","verdict":"pass","scope":"stage"},
                               {"seq":6,"stage":"canary","verdict":"pass","clause":"a.b","slice":"language=de"}],
                   "approvals":[7,{"seq":8}],"waivers":[]}},
                {"role":"candidate","version":"ve-3","kernel":"k3","share_bp":0,"allowed":false,"origin":null},
                {"role":"odd","allowed":"no","since":7,"origin":[]}, "no arm"]})");
  const Ran ran = daemon.run({"audit", "at", "m", "5000000"});
  CAPTURE(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.out.starts_with(
      "m at 1970-01-01 00:00:05: route applied 1970-01-01 00:00:01 (entry 3), of a log with 40 entries\n"
      "  incumbent ve-1 on kernel k: 97.5% of requests, since 1970-01-01 00:00:00 (entry 2)\n"
      "    installed without a promotion by ada (entry 2): first\n"
      "    checkpoint sha256:c\n"
      "  candidate ve-2 on kernel k2: 2.5% of requests, since unknown\n"
      "    promotion pr-1, requested by bob on 1970-01-01 00:00:00 (entry 4)\n"
      "    contract sha256:d\n"
      "    checkpoint sha256:e\n"
      "    succeeded on 1970-01-01 00:00:02 (entry 9)\n"
      "         5  canary  pass the stage\n"
      "         6  canary  pass a.b on language=de\n"
      "    approvals: entries 0, 8; waivers: entries none\n"
      "  candidate ve-3 on kernel k3: 0% of requests, since unknown\n"
      "    WITHOUT a promotion that allowed it\n"
      "    origin: not in the log\n"));
  // What the daemon does not say plainly counts as not allowed.
  CHECK(has(ran.out, "  odd  on kernel : 0% of requests, since unknown\n    WITHOUT a promotion"));
  CHECK(json::parse(daemon.run({"audit", "at", "m", "5000000", "--json"}).out)["tree_size"] == 40);
}

TEST_CASE("a population is listed with how each came to serve, and with the proof that nothing is missing") {
  ScriptedDaemon daemon;
  daemon.on(
      "GET /v1/audit/population?model=m&from_us=0&to_us=86400000000&limit=100",
      R"({"items":[{"seq":4,"time_us":0,"how":"promotion","model":"m","promotion":"pr-1","checkpoint":"sha256:c"},
                {"seq":5,"time_us":0,"how":"route","model":"m","role":"candidate","version":"ve-2","checkpoint":null}],
                "next":null,"tree_size":9,"completeness":{"from_size":2,"to_size":8}})");
  const std::vector<std::string> words{"audit",  "population", "--model", "m",
                                       "--from", "1970-01-01", "--to",    "1970-01-02"};
  CHECK(daemon.run(words).out ==
        "     4  1970-01-01 00:00:00  promotion  m  pr-1  sha256:c\n"
        "     5  1970-01-01 00:00:00  route      m  candidate ve-2 without a promotion that allowed it  \n"
        "of a log with 9 entries\n"
        "every entry of this range of time is one of 2 to 7; --json ends with the signed heads of both sizes "
        "and the "
        "proof that "
        "one continues the other\n");
  auto with_json = words;
  with_json.push_back("--json");
  CHECK(daemon.run(with_json).out.ends_with("{\"from_size\":2,\"to_size\":8}\n"));
}

TEST_CASE("a sample says from what it was drawn and how anyone draws it again") {
  ScriptedDaemon daemon;
  daemon.on(
      "GET /v1/audit/sample?kind=note&seed=a b&count=2&size=30&from_us=0",
      R"({"seed":"a b","population":12,"size":30,"items":[{"entry":{"seq":3,"kind":"note","time_us":0}},{"entry":null},{}]})");
  const Ran ran = daemon.run(
      {"audit", "sample", "--seed", "a b", "--count", "2", "--size", "30", "--kind", "note", "--from", "0"});
  CAPTURE(ran.err);
  CHECK(ran.exit_code == 0);
  CHECK(ran.out.starts_with("     3  1970-01-01 00:00:00  note\n"));
  CHECK(ran.out.ends_with("drawn from 12 of the first 30 entries by SHA-256(\"a b:\" seq)\n"));
}

TEST_CASE("a bundle is in its file when all of it came, and there is no file otherwise") {
  ScriptedDaemon daemon;
  const std::string path = file_with("") + ".bundle";
  daemon.on("GET /v1/promotions/pr-1/bundle?tables=false", "line 1\nline 2\n");
  daemon.on("GET /v1/promotions/pr-1", R"({"state":"running"})");
  const std::vector<std::string> words{"audit", "export", "--promotion", "pr-1", "--out", path};
  const Ran ran = daemon.run(words);
  CAPTURE(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(text_of_file(path) == "line 1\nline 2\n");
  CHECK(has(ran.out, "check it with 'driftgate audit verify " + path + " --trust FILE --running'"));
  CHECK(has(ran.out, "has not ended (it is running)"));
  const Ran again = daemon.run(words);
  CHECK(again.exit_code == 4);
  CHECK(has(again.err, "'" + path + "' already exists: choose another name"));
  CHECK(text_of_file(path) == "line 1\nline 2\n");
  const Ran streamed = daemon.run({"audit", "export", "--promotion", "pr-1", "--out", "-"});
  CHECK(streamed.exit_code == 0);
  const std::string other = path + ".none";
  const Ran none = daemon.run({"audit", "export", "--promotion", "pr-2", "--out", other});
  CHECK(none.exit_code == 4);
  CHECK_FALSE(std::filesystem::exists(other));
  CHECK_FALSE(std::filesystem::exists(other + ".part"));
  const std::string nowhere = path + "/below";
  const Ran unwritable = daemon.run({"audit", "export", "--promotion", "pr-1", "--out", nowhere});
  CHECK(unwritable.exit_code == 74);
  CAPTURE(unwritable.err);
  CHECK(has(unwritable.err, nowhere));
  daemon.on("GET /v1/promotions/pr-1", R"({"state":"succeeded"})");
  const Ran as_json = daemon.run({"audit", "export", "--promotion", "pr-1", "--out", other, "--json"});
  CHECK(json::parse(as_json.out) == json{{"bundle", other}});
}

TEST_CASE("an answer that is cut leaves no bundle that looks whole") {
  const net::test::CannedServer peer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf\n\r\n");
  const std::string path = file_with("") + ".cut";
  const Ran ran =
      run_captured({"audit", "export", "--promotion", "pr-1", "--out", path, "--url",
                    "http://127.0.0.1:" + std::to_string(peer.port()), "--token-file", file_with("dg_x")});
  CHECK(ran.exit_code == 69);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_FALSE(std::filesystem::exists(path + ".part"));
}

TEST_CASE("an export of a time asks for just that, from the head that was kept") {
  ScriptedDaemon daemon;
  const std::string path = file_with("") + ".range";
  daemon.on("GET /v1/evidence/export?from_us=0&to_us=86400000000", "x\n");
  const std::vector<std::string> words{"audit", "export",     "--from", "1970-01-01",
                                       "--to",  "1970-01-02", "--out",  path};
  CHECK(daemon.run(words).exit_code == 0);
  CHECK(daemon.requests().size() == 1);
  auto older = words;
  older.back() = path + "2";
  older.insert(older.end(), {"--older-head", file_with("no note")});
  CHECK(daemon.run(older).exit_code == 4);
  older.back() = file_with(std::string(20'000, 'x'));
  CHECK(has(daemon.run(older).err, "is larger than 16384 bytes"));
  CHECK(daemon.requests().size() == 1);
}

TEST_CASE("an export is of a promotion or of a time, and never of a guess between them") {
  const std::string out = file_with("") + ".b";
  const std::vector<std::vector<std::string>> commands = {
      {"--out", out},
      {"--from", "2026-01-01", "--out", out},
      {"--to", "2026-01-01", "--out", out},
      {"--promotion", "pr-1"},
      {"--promotion", "pr-1", "--from", "2026-01-01", "--to", "2026-02-01", "--out", out},
      {"--promotion", "pr-1", "--to", "2026-02-01", "--out", out},
      {"--from", "2026-01-01", "--to", "2026-02-01", "--with-tables", "--out", out},
  };
  for (const auto& more : commands) {
    ScriptedDaemon daemon;
    std::vector<std::string> words{"audit", "export"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = daemon.run(words);
    CHECK(ran.exit_code == 64);
    CHECK(ran.err.starts_with("driftgate: "));
    CHECK(daemon.requests().empty());
  }
}

TEST_CASE("a bundle that is none is tampered with, in words and in JSON") {
  const std::string trust = file_with(kTrust);
  for (const std::string& text :
       {std::string(), std::string("no bundle\n"), std::string("{}\n"), std::string(100, '\0'),
        std::string("\xFF\xFE{\n"), "{\"driftgate_bundle\":" + std::string(100, '[')}) {
    const std::string bundle = file_with(text);
    const Ran ran = run_captured({"audit", "verify", bundle, "--trust", trust});
    CAPTURE(ran.out);
    CHECK((ran.exit_code == 1 || ran.exit_code == 4));
    CHECK(ran.out.starts_with(bundle + ": "));
    const Ran as_json = run_captured({"audit", "verify", bundle, "--trust", trust, "--json"});
    CHECK(as_json.exit_code == ran.exit_code);
    json report = json::parse(as_json.out);
    CHECK(report["code"] == ran.exit_code);
    CHECK(report["bundle"] == bundle);
    CHECK_FALSE(report["findings"].empty());
  }
  const std::string bundle = file_with("x");
  const json both =
      json::parse(run_captured({"audit", "verify", bundle, bundle, "--trust", trust, "--json"}).out);
  CHECK(both.size() == 2);
}

TEST_CASE("what a verification needs and cannot have is said before a verdict") {
  const std::string trust = file_with(kTrust), bundle = file_with("x");
  const std::string folder = std::filesystem::path(bundle).parent_path();
  const std::tuple<std::vector<std::string>, int, std::string> commands[] = {
      {{bundle}, 64, "needs bundles and --trust"},
      {{"--trust", trust}, 64, "needs bundles and --trust"},
      {{bundle, "--trust", trust, "--data-dir", folder}, 64, "or --data-dir (or --config) alone"},
      {{bundle, "--trust", trust, "--config", trust}, 64, "or --data-dir (or --config) alone"},
      {{bundle, "--trust", folder + "/none"}, 74, "cannot read '" + folder + "/none'"},
      {{bundle, "--trust", file_with("{}")}, 4, "not a trust file"},
      {{bundle, "--trust", file_with(std::string(70'000, ' '))}, 4, "is larger than 65536 bytes"},
      {{folder, "--trust", trust}, 74, "is a folder; name the bundle in it"},
      {{folder + "/none", "--trust", trust}, 74, "cannot read '" + folder + "/none'"},
      {{bundle, "--trust", trust, "--older-head", folder + "/none"}, 74, "cannot read"},
      {{bundle, "--trust", trust, "--older-head", file_with(std::string(20'000, 'x'))},
       1,
       "is larger than 16384 bytes"},
  };
  for (const auto& [more, code, said] : commands) {
    CAPTURE(said);
    std::vector<std::string> words{"audit", "verify"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run_captured(words);
    CAPTURE(ran.err);
    CHECK(ran.exit_code == code);
    CHECK(has(ran.err, said));
    CHECK(ran.out.empty());
  }
}
