#include <doctest/doctest.h>

#include <chrono>

#include <nlohmann/json.hpp>

#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/time_text.hpp"

using namespace driftgate;
using namespace driftgate::cli;
using nlohmann::json;

namespace {

/// The line of an entry at 1970-01-01 00:00:01, without its time.
std::string line(const std::string& kind, const char* body, const char* subject = R"({"stage":"canary"})") {
  const json entry{
      {"kind", kind}, {"time_us", 1'999'999}, {"body", json::parse(body)}, {"subject", json::parse(subject)}};
  const std::string text = entry_line(entry);
  REQUIRE(text.starts_with("1970-01-01 00:00:01  " + kind));
  return text.substr(21);
}

/// True when no byte of `text` and no character in it can steer a terminal.
bool harmless(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n') || byte == 0x7f) return false;
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) return false;
  }
  return true;
}

const std::string kHostile =
    "a\x1b[2J\r\n\t\x07\x7f\xC2\x9B"
    "31mz";

}  // namespace

TEST_CASE("a line of the log says of each kind of entry what a reader looks for") {
  const std::tuple<const char*, const char*, const char*> lines[] = {
      {"verdict_reached", R"({"verdict":"violated","clause":"numerical.kl","message":"0.3 is over 0.1"})",
       "verdict_reached      canary             violated numerical.kl — 0.3 is over 0.1"},
      {"verdict_reached",
       R"({"verdict":"pass","clause":"statistical.tv","slice":"language=de","severity":"soft"})",
       "verdict_reached      canary             pass statistical.tv on language=de (soft)"},
      {"verdict_reached", R"({"verdict":"pass","scope":"stage","severity":"hard"})",
       "verdict_reached      canary             pass the stage"},
      {"state_changed", R"({"from":"running","to":"rejected","traffic":"reverted","reason":"nonfinite"})",
       "state_changed        canary             running → rejected, traffic reverted — nonfinite"},
      {"state_changed", R"({"paused":true})", "state_changed        canary             paused=true"},
      {"route_desired", R"({"candidate_bp":250,"reason":"step 2"})",
       "route_desired        canary             candidate 2.5% — step 2"},
      {"route_applied", R"({"candidate_bp":10000})",
       "route_applied        canary             candidate 100%"},
      {"route_applied", "{}", "route_applied        canary             candidate 0%"},
      {"job_finished",
       R"({"attempt":2,"job":"drift","rows":3,"wall":{"dec":"1.50"},"files":["a"],"x":{"y":1},"z":null})",
       "job_finished         canary             job=drift rows=3 wall=1.50"},
      {"approval_given", R"({"who":"ada","message":"seen","reason":"read"})",
       "approval_given       canary             who=ada — read"},
      {"note", R"({"message":"seen"})", "note                 canary              — seen"},
  };
  for (const auto& [kind, body, wanted] : lines) {
    CAPTURE(wanted);
    CHECK(line(kind, body) == wanted);
  }
  CHECK(line("opened", "{}", "{}") == "opened");
  CHECK(line("opened", "null", "null") == "opened");
  CHECK(line("opened", "[1]", "\"x\"") == "opened");
}

TEST_CASE("an entry that is none, or has members of other types, is printed as far as it goes") {
  for (const char* text :
       {"null", "3", "[]", "\"x\"", "{}", R"({"time_us":"now","kind":7,"body":3,"subject":[]})"}) {
    CAPTURE(text);
    CHECK(entry_line(json::parse(text)).starts_with("1970-01-01 00:00:00"));
  }
}

TEST_CASE("nothing that comes from outside steers a terminal, wherever it stands") {
  CHECK(printable(kHostile) == "a [2J" + std::string(6, ' ') + "31mz");
  CHECK(printable("Grüße — ✓ \xC2\xA0") == "Grüße — ✓ \xC2\xA0");
  CHECK(harmless(plain_text(kHostile)));
  CHECK(harmless(plain_text({{"dec", kHostile}})));
  CHECK(harmless(plain_text({{"other", kHostile}})));
  CHECK(harmless(plain_text(json::array({kHostile}))));
  const json body{{kHostile, kHostile},        {"verdict", kHostile}, {"clause", kHostile},
                  {"slice", kHostile},         {"message", kHostile}, {"to", kHostile},
                  {"dec", {{"dec", kHostile}}}};
  for (const char* kind : {"verdict_reached", "state_changed", "route_applied", "job_finished"})
    CHECK(harmless(line(kind, body.dump().c_str(), json{{"stage", kHostile}}.dump().c_str())));
  const json promotion{
      {"id", kHostile},
      {"model", kHostile},
      {"state", kHostile},
      {"stage", kHostile},
      {"engine", kHostile},
      {"reason", kHostile},
      {"approval", {{"needed", 2}, {"given", {{{"who", kHostile}}}}, {"evidence_digest", kHostile}}},
      {"stages",
       {{{"stage", kHostile},
         {"verdict", kHostile},
         {"summary",
          {{"verdicts", {{kHostile, 2}}},
           {"open", {{{"verdict", kHostile}, {"clause", kHostile}, {"message", kHostile}}}}}}}}}};
  CHECK(harmless(promotion_text(promotion)));
  CHECK(harmless(progress_line(promotion)));
}

TEST_CASE("values are text as people write them, and long ones are cut between characters") {
  const std::pair<json, const char*> values[] = {{"text", "text"},
                                                 {7, "7"},
                                                 {-0.5, "-0.5"},
                                                 {true, "true"},
                                                 {nullptr, ""},
                                                 {{{"dec", "0.1"}}, "0.1"},
                                                 {{{"dec", 3}}, "{\"dec\":3}"},
                                                 {json::array({1, "b"}), "[1,\"b\"]"},
                                                 {18'446'744'073'709'551'615U, "18446744073709551615"}};
  for (const auto& [value, wanted] : values) CHECK(plain_text(value) == wanted);
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::string text(shift, 'x');
    while (text.size() < 300) text += "✓";
    const std::string cut = plain_text(json::array({text}));
    CHECK(cut.size() <= 120 + std::string("…").size());
    CHECK(cut.ends_with("✓…"));
  }
  CHECK(text_of(json::array(), "a").empty());
  CHECK(text_of({{"a", nullptr}}, "a").empty());
  CHECK(base::integer_at({{"a", "7"}}, "a", -1) == -1);
  CHECK(base::integer_at({{"a", 7.5}}, "a", -1) == -1);
  CHECK(base::integer_at({{"a", -7}}, "a") == -7);
}

TEST_CASE("where a promotion stands is one line: stage, share of the work, and the canary's figures") {
  const std::pair<const char*, const char*> lines[] = {
      {R"({"state":"queued"})", "queued"},
      {R"({"state":"running","stage":"shadow-runtime","stages":[{"stage":"shadow-runtime",
          "progress":{"done":420,"total":1000,"unit":"pairs"}}]})",
       "running shadow-runtime 42% (420 of 1000 pairs)"},
      {R"({"state":"running","stage":"s","stages":[{"stage":"s","progress":{"done":5,"total":0,"text":"drift: measuring"}}]})",
       "running s drift: measuring"},
      {R"({"state":"running","stage":"s","stages":[{"stage":"s","progress":{"done":1,"total":3,"unit":"rows","text":"t"}}]})",
       "running s 33% (1 of 3 rows), t"},
      // The progress of a stage that is over says nothing of the one that runs.
      {R"({"state":"running","stage":"canary","stages":[{"stage":"s","progress":{"done":1,"total":3}}]})",
       "running canary"},
      {R"({"state":"running","stage":"canary","canary":{"share_bp":250,"phase":"soak","e_value":0.5}})",
       "running canary; share 2.5%, soak, e-value 0.5"},
      {R"({"state":"running","stage":"canary","canary":{"share_bp":1,"phase":"bake"}})",
       "running canary; share 0.01%, bake, e-value 1"},
      {R"({"state":"running","stage":"canary","canary":{"share_bp":100,"phase":"soak","e_value":"Infinity"}})",
       "running canary; share 1%, soak, e-value inf"},
      {R"({"state":"running","stage":"canary","canary":{"share_bp":100,"phase":"soak","e_value":null}})",
       "running canary; share 1%, soak, e-value 1"},
      {R"({"state":"rejected","stage":"canary","ended_us":9,"canary":{"share_bp":250}})", "rejected canary"},
      {"[]", ""},
      {R"({"state":"running","stage":"s","stages":["s"],"canary":[]})", "running s"},
  };
  for (const auto& [promotion, wanted] : lines) {
    CAPTURE(promotion);
    CHECK(progress_line(json::parse(promotion)) == wanted);
  }
}

TEST_CASE("a promotion is printed with its stages, the clauses that are open, and the words to type next") {
  json promotion = json::parse(R"({"id":"pr-1","model":"m","state":"awaiting_approval","stage":"canary",
      "engine":"e","contract":"sha256:c","contract_name":"c","requester":"ada","traffic":"live","reason":"",
      "stages":[{"stage":"offline-numeric","verdict":"pass","state":"pass",
                 "summary":{"verdicts":{"pass":5,"violated":0,"inconclusive":1},
                            "open":[{"verdict":"inconclusive","clause":"numerical.kl","message":"too few rows"}]}},
                {"stage":"shadow-runtime","verdict":"error","state":"error","summary":"the spool is gone"},
                {"stage":"canary","verdict":null,"state":"running","progress":{"done":1,"total":2,"unit":"steps"}}],
      "canary":{"share_bp":500,"phase":"ramping","e_value":2,"waits_for":["3 s of 10 s soak and 40 of 200 keys."]},
      "approval":{"needed":2,"given":[{"who":"bob"},{"who":"eve"}],"evidence_digest":"sha256:e"},
      "waiver":{"needed":1,"evidence_digest":"sha256:w","clauses":[{"clause":"numerical.kl"}]}})");
  CHECK(promotion_text(promotion) ==
        "pr-1  m  awaiting_approval canary 50% (1 of 2 steps); share 5%, ramping, e-value 2\n"
        "  engine      e\n"
        "  contract    c sha256:c\n"
        "  requester   ada\n"
        "  traffic     live\n"
        "  offline-numeric    pass         1 inconclusive, 5 pass\n"
        "    inconclusive numerical.kl: too few rows\n"
        "  shadow-runtime     error        the spool is gone\n"
        "  canary             running      50% (1 of 2 steps)\n"
        "  waits for   3 s of 10 s soak and 40 of 200 keys.\n"
        "  waits for approval (2 of 2: bob, eve): driftgate approve pr-1 --evidence sha256:e --reason …\n"
        "  inconclusive: driftgate waive pr-1 --clause numerical.kl --evidence sha256:w --reason …\n");
  CHECK(promotion_text(json::object()) == "    \n");
  // Who approves is shown what nobody said of this promotion.
  promotion["request"] = json::parse(R"({"accept_undecidable":true,"recipe":{"revision":3,"digest":"sha256:d",
      "set_by":"mallory","parts":["/captures/numeric/inf","/contract"]}})");
  const std::string shown = promotion_text(promotion);
  CHECK(shown.find("  requester   ada\n"
                   "  recipe      revision 3 by mallory: captures.numeric.inf, contract\n"
                   "  accepts     that a hard clause cannot be decided for lack of an engine's ability\n") !=
        std::string::npos);
}

TEST_CASE("a table's columns are as wide as their widest cell, counted in characters") {
  CHECK(format_table({"name", "n"}, {{"Grüße", "1"}, {"a", "10"}}) == "name   n\nGrüße  1\na      10\n");
  CHECK(format_table({"a", "b"}, {{"x", ""}, {"only"}, {"1", "2", "too many"}}) ==
        "a     b\nx\nonly\n1     2\n");
  CHECK(format_table({"a"}, {}) == "a\n");
}

TEST_CASE("times are read as UTC, in the forms that are named") {
  const std::pair<const char*, std::int64_t> times[] = {
      {"0", 0},
      {"1700000000000000", 1'700'000'000'000'000},
      {"9223372036854775807", 9'223'372'036'854'775'807},
      {"1970-01-01", 0},
      {"2026-01-31", 1'769'817'600'000'000},
      {"2026-01-31T12:00:05", 1'769'860'805'000'000},
      {"2026-01-31 12:00:05", 1'769'860'805'000'000},
      {"2026-01-31T12:00:05Z", 1'769'860'805'000'000},
      {"2024-02-29", 1'709'164'800'000'000},
      {"9999-12-31T23:59:59", 253'402'300'799'000'000},
  };
  for (const auto& [text, wanted] : times) {
    CAPTURE(text);
    const auto time = parse_time(text);
    REQUIRE(time);
    CHECK(*time == wanted);
    if (std::string_view(text).find('-') != std::string_view::npos)
      CHECK(format_time(*time).starts_with(std::string(text).substr(0, 10)));
  }
}

TEST_CASE("what is no time is refused with the forms that are") {
  for (const char* text : {"",
                           " ",
                           "-1",
                           "-0",
                           "+5",
                           "1e6",
                           "5 ",
                           "9223372036854775808",

                           "2026-01",
                           "2026-1-31",
                           "26-01-31",
                           "2026-02-29",
                           "2026-13-01",
                           "2026-00-01",
                           "2026-01-00",
                           "2026-01-32",
                           "1969-12-31",
                           "0000-01-01",
                           "2026-01-31T",
                           "2026-01-31T12",
                           "2026-01-31T12:00",
                           "2026-01-31T12:00:05.5",
                           "2026-01-31T24:00:00",
                           "2026-01-31T12:60:00",
                           "2026-01-31T12:00:60",
                           "2026-01-31t12:00:05",
                           "2026-01-31T12:00:05+01:00",
                           "2026-01-31T12:00:05ZZ",
                           "2026-01-31Z",
                           "2026/01/31",
                           "-001-01-01",
                           "2026--1-01",
                           "2026-01-31T-0:-0:-0",
                           "2026-01-31T+1:00:00",
                           "now ",
                           "Now",
                           "yesterday",
                           "2026-01-31\n"}) {
    CAPTURE(text);
    const auto time = parse_time(text);
    REQUIRE_FALSE(time);
    CHECK(time.error().code == schema::ErrorCode::invalid_argument);
    CHECK(time.error().message ==
          "'" + std::string(text) + "' is not a time: write 2026-01-31, 2026-01-31T12:00:05 (UTC) or now");
  }
}

TEST_CASE("now is the time of this machine's clock") {
  const auto clock = [] {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
  };
  const auto before = clock();
  const auto now = parse_time("now");
  REQUIRE(now.has_value());
  CHECK(*now >= before);
  CHECK(*now <= clock());
}

TEST_CASE("an answer that is no object of JSON is no answer of the daemon") {
  for (const char* text : {"", "<html></html>", "{", "[]", "\"ok\"", "3", "null", "[{\"items\":[]}]"}) {
    CAPTURE(text);
    const auto answer = parse_answer(std::string(text));
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == schema::ErrorCode::invalid_document);
    CHECK(answer.error().message.find("is the URL right?") != std::string::npos);
  }
  CHECK(parse_answer(std::string("{}")));
  CHECK(parse_answer(schema::fail(schema::ErrorCode::conflict, "no")).error().code ==
        schema::ErrorCode::conflict);
}
