#include "daemon/route/relay/answer_judge.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace driftgate::route;

namespace {

constexpr const char* kCompletion = R"({"choices":[{"text":"x"}]})";

AnswerJudge plain(int status, std::string_view why, std::string_view body, bool stream = false) {
  AnswerJudge judge(stream);
  if (status != 0) judge.head(status, "application/json", 1);
  judge.end(why, body, 2);
  return judge;
}

AnswerJudge streamed(std::string_view events, std::string_view why = {}) {
  AnswerJudge judge(true);
  judge.head(200, "text/event-stream; charset=utf-8", 1);
  REQUIRE(judge.streamed());
  double now = 10;
  // Byte by byte: events must be seen wherever the network cuts them.
  for (const char byte : events) judge.part(std::string_view(&byte, 1), byte == '\n' ? now++ : now);
  judge.end(why, {}, 100);
  return judge;
}

const std::string kToken = "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}\n\n";
const std::string kDone = "data: [DONE]\n\n";

}  // namespace

TEST_CASE("plain answers are judged by status and body") {
  CHECK(plain(200, "", kCompletion).ending().outcome == Outcome::ok);
  CHECK(plain(400, "", "{}").ending().outcome == Outcome::excluded);
  CHECK(plain(404, "", "").ending().outcome == Outcome::excluded);
  const std::pair<AnswerJudge, const char*> failures[] = {
      {plain(0, "connect", ""), "connect"},
      {plain(0, "timeout", ""), "timeout"},
      {plain(500, "", "{}"), "status_500"},
      {plain(429, "", "{}"), "status_429"},
      {plain(302, "", ""), "status_302"},
      {plain(200, "", "garbage"), "bad_body"},
      {plain(200, "", ""), "bad_body"},
      {plain(204, "", ""), "bad_body"},
      {plain(200, "truncated_answer", kCompletion), "truncated_answer"},
      {plain(200, "", kCompletion, true), "bad_body"}};
  for (const auto& [judge, reason] : failures) {
    CHECK(judge.ending().outcome == Outcome::failed);
    CHECK(judge.ending().reason == reason);
  }
}

TEST_CASE("an answer whose first byte was late is a failure, and may be passed on all the same") {
  const auto late = [](int status, std::string_view why, std::string_view body) {
    AnswerJudge judge(false);
    judge.head(status, "application/json", 1);
    judge.late();
    judge.end(why, body, 2);
    return judge;
  };
  const auto good = late(200, "", kCompletion);
  CHECK(good.ending().outcome == Outcome::failed);
  CHECK(good.ending().reason == "first_byte");
  CHECK(good.usable());
  CHECK(late(500, "", "{}").ending().reason == "status_500");
  CHECK_FALSE(late(500, "", "{}").usable());
  CHECK(late(400, "", "{}").ending().outcome == Outcome::excluded);
}

TEST_CASE("a stream is good when it reaches its end") {
  const auto judge = streamed(kToken + kToken + kToken + kDone);
  CHECK(judge.ending().outcome == Outcome::ok);
  CHECK(judge.complete());
  CHECK(judge.ending().ttft_ms == 10);
  CHECK(judge.ending().inter_token_ms == 2);  // each token takes two line ends, each one step of the clock
  CHECK(judge.ending().total_ms == 100);
}

TEST_CASE("a stream without its end, or with something that is no completion, is a failure") {
  CHECK(streamed(kToken).ending().reason == "truncated_stream");
  CHECK(streamed(kToken, "truncated_answer").ending().reason == "truncated_stream");
  for (const char* why : {"timeout", "stalled", "first_byte", "breaker_open"})
    CHECK(streamed(kToken, why).ending().reason == why);
  CHECK(streamed("").ending().reason == "truncated_stream");
  CHECK(streamed("data: oops\n\n" + kDone).ending().reason == "bad_body");
  CHECK(streamed("data: {\"error\":{\"message\":\"x\"}}\n\n" + kDone).ending().reason == "bad_body");
  CHECK(streamed(kToken + kDone, "truncated_answer").ending().outcome == Outcome::ok);
}

TEST_CASE("only events with a token count as tokens") {
  const std::string role =
      "data: "
      "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\r\n\r\n";
  const std::string finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
  const std::string usage = "data: {\"choices\": [ ], \"usage\":{}}\n\n";
  const std::string half_character = "data: {\"choices\": [{\"text\": \"\", \"finish_reason\": null}]}\n\n";
  SseScan scan;
  scan.feed(": comment\n\nevent: x\n" + role + half_character + kToken + finish + usage + kDone, 5);
  CHECK(scan.tokens() == 2);
  CHECK(scan.done());
  CHECK_FALSE(scan.garbage());
}

TEST_CASE("a line that is too long is passed over without being kept") {
  SseScan scan;
  scan.feed("data: " + std::string(SseScan::kMaxJudgedLineBytes + 1, 'x'), 1);
  scan.feed("\n" + kToken + kDone, 2);
  CHECK_FALSE(scan.garbage());
  CHECK(scan.tokens() == 1);
  CHECK(std::isnan(scan.inter_token_ms()));
}
