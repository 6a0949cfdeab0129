#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "daemon/cli/live/clause_figures.hpp"
#include "daemon/cli/live/promotion_lines.hpp"
#include "daemon/cli/live/promotion_picture.hpp"
#include "daemon/cli/live/text.hpp"
#include "daemon/cli/live/watched.hpp"

using namespace driftgate::cli::live;
using nlohmann::json;

namespace {

constexpr std::int64_t kNow = 1'790'000'100'000'000;

const char* const kCanary =
    R"({"id":"pr-1","model":"tinylm","engine":"bf16","contract":"sha256:0123456789abcdef01",
    "contract_name":"demo","requester":"ada","state":"running","stage":"canary","attempt":1,"traffic":"live",
    "reason":"","created_us":1790000000000000,"ended_us":null,
    "candidate":{"engine":"bf16","kernel":"tinylm-bf16"},"baseline":{"engine":"f32","kernel":"tinylm-f32"},
    "stages":[{"stage":"offline-numeric","attempt":1,"state":"pass","verdict":"pass","summary":{"open":[
                 {"clause":"numerical.topk","slice":"","verdict":"violated","severity":"soft","message":"9 of 10"}]}},
              {"stage":"statistical-slice","attempt":1,"state":"error","verdict":"error","summary":{"open":[]}},
              {"stage":"statistical-slice","attempt":2,"state":"pass","verdict":"pass","summary":{"open":[]}},
              {"stage":"canary","attempt":1,"state":"running","verdict":null,"summary":{"open":[]},
               "progress":{"done":40,"total":0,"unit":"keys","text":"ramping at 10%"}}],
    "canary":{"step":1,"steps":4,"phase":"ramping","share_bp":1000,"frozen":false,"keys":40,"exposed_requests":420,
              "exposed_keys":300,"failures":3,"incumbent_failures":2,"e_value":2,
              "waits_for":["4 s of 6 s soak and 40 of 300 keys."]},"approval":null,"waiver":null})";

const char* const kSeries = R"({"promotion":"pr-1","stage":"canary","attempt":1,"points":[],"clauses":[
    {"clause":"runtime.latency","slice":"","severity":"hard","limit_kind":"max","threshold":1.2,"e_harm_needed":500,
     "e_proof_needed":20,"points":[{"estimate":0.9,"e_value":0.1,"e_proof":25.5,"verdict":"pass"}]},
    {"clause":"runtime.gaps","slice":"","severity":"hard","limit_kind":"max","threshold":0.1,"e_harm_needed":500,
     "points":[{"estimate":0.01,"e_value":1.5,"verdict":"inconclusive"}]},
    {"clause":"runtime.errors","slice":"language=de","severity":"hard","limit_kind":"max","threshold":0.05,
     "e_harm_needed":500,"points":[{"estimate":0.04,"e_value":2,"verdict":"inconclusive"},
                                   {"estimate":0.0646,"e_value":"inf","verdict":"violated"}]},
    {"clause":"runtime.hang","slice":"","severity":"hard","limit_kind":"max","threshold":0.1,"e_harm_needed":500,
     "points":[{"estimate":0.05,"e_value":90,"verdict":"inconclusive"}]}],
    "planned":[{"step":0,"share_bp":100},{"step":1,"share_bp":1000},{"step":2,"share_bp":10000}]})";

json canary() {
  return json::parse(kCanary);
}

std::string drawn(const PromotionPicture& picture, const Shape& shape, const News& news = {}) {
  std::string out;
  for (const Line& line : promotion_lines(picture, news, shape, kNow))
    out += painted(line, shape.columns, false) + "\n";
  return out;
}

Shape shape_of(std::size_t columns, std::size_t rows = 40) {
  return {.columns = columns, .rows = rows, .colour = false};
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("the screen says what is promoted, where it stands, and what the ramp and the clauses measured") {
  const std::string screen = drawn(picture_of(canary(), json::parse(kSeries)), shape_of(120));
  CAPTURE(screen);
  CHECK(holds(screen, "tinylm   f32 (tinylm-f32) → bf16 (tinylm-bf16)\n"));
  CHECK(holds(screen, "running in canary   pr-1   for 100 s\n"));
  CHECK(holds(screen, "contract demo sha256:0123456789abcdef01   asked for by ada   traffic live\n"));
  CHECK(holds(screen,
              "✓ offline-numeric pass   ✓ statistical-slice pass attempt 2   · shadow-runtime not reached"));
  CHECK(holds(screen, "▸ canary running 40 keys"));
  CHECK(holds(screen, "10%   step 2 of 4, ramping\n"));
  CHECK(holds(screen, "420 requests of 300 keys exposed; 3 failed, 2 of the incumbent's\n"));
  CHECK(holds(screen, "1% → 10% → 100%\n"));
  CHECK(holds(screen, "why      waits for 4 s of 6 s soak and 40 of 300 keys.\n"));
  CHECK(holds(screen, "violated      runtime.errors on language=de"));
  CHECK(holds(screen, "0.0646 ≤ 0.05  harm e inf of 500"));
  CHECK(holds(screen, "████████"));
  CHECK(holds(screen, "proof e 25.5 of 20"));
  CHECK(holds(screen, "Ctrl-C leaves; the promotion goes on"));
}

TEST_CASE("clauses that fail come first, then what is nearest to its level, passes last") {
  std::string order;
  for (const ClauseFigure& clause : clause_figures(canary(), json::parse(kSeries)))
    order += clause.clause + " " + clause.word + "\n";
  CHECK(order ==
        "runtime.errors violated\nnumerical.topk violated\nruntime.hang undecided\nruntime.gaps undecided\n"
        "runtime.latency pass\n");
  json other = json::parse(kSeries);
  other["attempt"] = 2;  // the figures of another run say nothing of this one
  CHECK(clause_figures(canary(), other).size() == 1);
  CHECK(clause_figures(canary(), nullptr).size() == 1);
  json ended = canary();
  ended["stages"][3]["state"] = "violated";
  ended["stages"][3]["summary"]["open"] = json::parse(
      R"([{"clause":"runtime.errors","slice":"language=de","verdict":"violated","severity":"hard","message":"31 of 480"}])");
  const auto merged = clause_figures(ended, json::parse(kSeries));
  CHECK(merged.size() == 5);
  CHECK(merged[0].message == "31 of 480");
  CHECK(merged[0].estimate == doctest::Approx(0.0646));
  CHECK(merged[2].word == "inconclusive");
}

TEST_CASE("what the daemon says of why, next and needs is shown in place of what the program can tell") {
  json promotion = canary();
  promotion["state"] = "awaiting_approval";
  promotion["share_bp"] = 100;
  promotion["why"] = "Step 3 waits for an approval.";
  promotion["next"] = "50% once it is given.";
  promotion["approval"] = {{"needed", 2},
                           {"given", json::array({json{{"who", "bob"}}})},
                           {"step", 2},
                           {"evidence_digest", "sha256:" + std::string(64, 'a')}};
  promotion["needs"] = json::array(
      {json{{"action", "approve"}, {"scope", "approver"}, {"text", "An approver has to read the figures."}},
       json{{"action", "unheard_of"}, {"scope", "operator"}, {"text", "Something new."}}});
  const std::string screen = drawn(picture_of(promotion, nullptr), shape_of(80));
  CAPTURE(screen);
  CHECK(holds(screen, "why      Step 3 waits for an approval.\nnext     50% once it is given.\n"));
  CHECK(holds(screen, "needs    An approver has to read the figures.\n"));
  CHECK(holds(screen,
              "driftgate approve pr-1 --evidence \\\nsha256:" + std::string(64, 'a') + " \\\n--reason …\n"));
  CHECK(holds(screen, "Something new.\n"));
  CHECK(holds(screen, "‖ canary waiting"));
  CHECK(holds(screen, " 1%   step 2 of 4"));
  CHECK_FALSE(holds(screen, "40 of 300 keys."));
  CHECK(holds(drawn(picture_of(promotion, nullptr), shape_of(40)), "driftgate approve pr-1 --reason …\n"));
  CHECK(holds(drawn(picture_of(promotion, nullptr), shape_of(200)), "--evidence sha256:aaaa"));
}

TEST_CASE("from a daemon that tells no needs, they follow from what the promotion waits for") {
  json promotion = canary();
  promotion["state"] = "inconclusive";
  promotion["waiver"] = json::parse(R"j({"needed":2,"evidence_digest":"sha256:w","clauses":[
      {"clause":"numerical.kl","given":[]},{"clause":"$(x)"}]})j");
  const auto needs = picture_of(promotion, nullptr).needs;
  REQUIRE(needs.size() == 3);
  CHECK(needs[0].text == "numerical.kl is inconclusive and can be waived (0 of 2)");
  CHECK(needs[0].command == std::vector<std::string>{"driftgate waive", "pr-1", "--clause", "numerical.kl",
                                                     "--evidence", "sha256:w", "--reason …"});
  CHECK(needs[1].command[3] == "…");  // nothing that a shell would run is offered to be copied
  CHECK(needs[2].command[0] == "driftgate resume");
  json paused = canary();
  paused["state"] = "paused";
  CHECK(picture_of(paused, nullptr).needs[0].command[0] == "driftgate resume");
  CHECK(picture_of(canary(), nullptr).needs.empty());
}

TEST_CASE("every line fits, at each width and height, and little room goes to what matters most") {
  json promotion = canary();
  std::string wide;
  for (int i = 0; i < 60; ++i) wide += "漢字";
  promotion["why"] =
      "A sentence that is so long that no terminal of eighty columns has it on one line, and " + wide;
  const PromotionPicture picture = picture_of(promotion, json::parse(kSeries));
  News news;
  for (int i = 0; i < 20; ++i) news.events.push_back("event " + std::to_string(i) + std::string(300, 'e'));
  for (const std::size_t columns : {1, 10, 40, 80, 200}) {
    for (const std::size_t rows : {1, 4, 8, 23, 60}) {
      const auto lines = promotion_lines(picture, news, shape_of(columns, rows), kNow);
      CHECK(lines.size() <= rows);
      for (const Line& line : lines) CHECK(display_width(painted(line, columns, false)) <= columns);
    }
  }
  const std::string small = drawn(picture, shape_of(80, 11), news);
  CAPTURE(small);
  CHECK(holds(small, "tinylm"));
  CHECK(holds(small, "running in canary"));
  CHECK(holds(small, "10%"));
  CHECK(holds(small, "why"));
  CHECK_FALSE(holds(small, "event"));
  const std::string tall = drawn(picture, shape_of(80, 60), news);
  CHECK(holds(tall, "event 19"));
  CHECK_FALSE(holds(tall, "event 1e"));
}

TEST_CASE("names that could steer a terminal or turn its text are harmless on the screen") {
  const std::string hostile = "a\x1b[2J\x1b]0;t\x07\r\n\u202E\u200B漢";
  const auto harmless = [](const std::string& text) {
    for (const char c : text)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
    return !holds(text, "\u202E") && !holds(text, "\u200B");
  };
  const json clause{{"clause", hostile}, {"slice", hostile}, {"verdict", hostile}, {"message", hostile}};
  json promotion = canary();
  for (const char* member :
       {"id", "model", "state", "stage", "contract", "contract_name", "requester", "traffic", "why", "next"})
    promotion[member] = hostile;
  promotion["candidate"] = {{"engine", hostile}, {"kernel", hostile}};
  promotion["stages"][0]["verdict"] = hostile;
  promotion["stages"][0]["summary"]["open"] = json::array({clause});
  promotion["canary"]["phase"] = hostile;
  promotion["needs"] = json::array({json{{"action", "resume"}, {"text", hostile}}});
  json series = json::parse(kSeries);
  for (json& one : series["clauses"]) one["clause"] = one["limit_kind"] = hostile;
  Watched watched(promotion, kNow);
  watched.take({"7", hostile, json{{"kind", hostile}, {"body", {{hostile, hostile}}}}.dump()}, kNow);
  watched.take_series(series);
  watched.lost(hostile);
  for (const std::size_t columns : {40, 80, 200}) {
    for (const Line& line : watched.lines(shape_of(columns, 60), kNow)) {
      const std::string text = painted(line, columns, false);
      CAPTURE(text);
      CHECK(harmless(text));
      CHECK(display_width(text) <= columns);
    }
  }
}

TEST_CASE("an answer that is none, or has members of other types, is drawn as far as it goes") {
  for (const char* text :
       {"null", "3", "[]", "{}", R"({"stages":3,"canary":[],"needs":"x","approval":1,"waiver":[]})",
        R"({"stages":["s",null],"canary":{"step":"x"},"needs":[3,null],"waiver":{"clauses":[1]}})"}) {
    CAPTURE(text);
    const json value = json::parse(text);
    CHECK_FALSE(drawn(picture_of(value, value), shape_of(80)).empty());
  }
}

namespace {

json job(int done) {
  const json progress{{"done", done}, {"total", 100}, {"unit", "rows"}, {"text", "drift"}};
  const json run{{"stage", "offline-numeric"}, {"state", "running"}, {"progress", progress}};
  return {{"id", "pr-1"}, {"state", "running"}, {"stage", "offline-numeric"}, {"stages", json::array({run})}};
}

std::string screen_of(const Watched& watched, std::int64_t now) {
  std::string out;
  for (const Line& line : watched.lines(shape_of(100), now)) out += painted(line, 100, false) + "\n";
  return out;
}

}  // namespace

TEST_CASE("a followed promotion shows its newest events, a lost connection, and how long a job takes") {
  Watched watched(job(0), kNow);
  CHECK(watched.take({"", "progress", job(20).dump()}, kNow + 10'000'000));
  CHECK(holds(screen_of(watched, kNow + 10'000'000), "About 40 s more at this rate."));
  CHECK(watched.take({"4", "note", R"({"kind":"note","time_us":1790000000000000,"body":{"message":"seen"}})"},
                     kNow));
  CHECK(holds(screen_of(watched, kNow), "14:13:20  note"));
  CHECK(watched.take({"5", "note", "no json"}, kNow));
  watched.heard(kNow);
  watched.lost("connection refused");
  CHECK(holds(screen_of(watched, kNow + 3'000'000),
              "! no answer from the daemon for 3 s, trying again: connection refused"));
  watched.heard(kNow + 5'000'000);
  CHECK(holds(screen_of(watched, kNow + 5'000'000), "the daemon answers again after 5 s"));
  CHECK(holds(screen_of(watched, kNow + 7'000'000), "last message 2 s ago"));
}

TEST_CASE("a promotion is followed until it has ended, or until people have to decide") {
  Watched watched(job(0), kNow);
  json open = job(50);
  open["state"] = "inconclusive";
  CHECK_FALSE(watched.take({"", "progress", open.dump()}, kNow));
  open["state"] = "rejected";
  open["reason"] = "numerical.kl is violated";
  open["created_us"] = kNow - 60'000'000;
  open["ended_us"] = kNow;
  CHECK_FALSE(watched.take({"", "end", open.dump()}, kNow));
  CHECK(holds(screen_of(watched, kNow + 90'000'000), "rejected in offline-numeric   pr-1   took 60 s"));
  CHECK(holds(screen_of(watched, kNow), "why      numerical.kl is violated"));
  CHECK_FALSE(holds(screen_of(watched, kNow), "Ctrl-C"));
}
