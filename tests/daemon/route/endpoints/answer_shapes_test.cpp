#include "daemon/route/http/answer_shapes.hpp"

#include <doctest/doctest.h>

#include <string>

#include "daemon/route/http/request_shapes.hpp"
#include "daemon/route/relay/answer_judge.hpp"

using namespace driftgate::route;

namespace {

std::string event(const std::string& type, const std::string& more = {}) {
  return "event: " + type + "\ndata: {\"type\":\"" + type + "\"" + more + "}\n\n";
}

AnswerJudge streamed(ApiShape shape, std::string_view events, std::string_view why = {}) {
  AnswerJudge judge(true, shape);
  judge.head(200, "text/event-stream", 1);
  REQUIRE(judge.streamed());
  double now = 10;
  for (const char byte : events) judge.part(std::string_view(&byte, 1), byte == '\n' ? now++ : now);
  judge.end(why, {}, 100);
  return judge;
}

AnswerJudge plain(ApiShape shape, std::string_view body, int status = 200) {
  AnswerJudge judge(false, shape);
  judge.head(status, "application/json", 1);
  judge.end("", body, 2);
  return judge;
}

BodyFacts facts_of(ApiShape shape, const std::string& body) {
  auto facts = scan_request_body(body);
  REQUIRE(facts);
  read_shape(shape, body, *facts);
  return *facts;
}

const std::string kMessageStart = event("message_start", R"(,"message":{"type":"message","content":[]})");
const std::string kMessageToken =
    event("content_block_delta", R"(,"index":0,"delta":{"type":"text_delta","text":"a"})");
const std::string kResponseToken = event("response.output_text.delta", R"(,"delta":"a")");

}  // namespace

TEST_CASE("a member of the top object is found wherever it stands, and never inside another value") {
  CHECK(top_text(R"({"type":"a"})", "type") == "a");
  CHECK(top_text(R"({"x":{"type":"b"},"y":["type","c"],"z":"\"type\":\"d\"", "type" : "a"})", "type") == "a");
  CHECK(top_text(R"({"x":"type","type":"a"})", "type") == "a");
  for (const char* text : {"", "{", R"({"type")", R"({"type":)", R"({"type":7})", R"({"type":"a)",
                           R"(["type","a"])", R"({"x":{"type":"b"}})"})
    CHECK_MESSAGE(top_text(text, "type").empty(), text);
}

TEST_CASE("a stream of messages is good when it reaches message_stop, and counts its deltas as tokens") {
  const auto judge =
      streamed(ApiShape::message, kMessageStart + event("ping") + kMessageToken + kMessageToken +
                                      event("message_delta") + event("message_stop"));
  CHECK(judge.ending().outcome == Outcome::ok);
  CHECK(judge.complete());
  CHECK(judge.ending().ttft_ms > 10);
  CHECK(judge.ending().inter_token_ms > 0);
  CHECK(streamed(ApiShape::message, kMessageStart + kMessageToken).ending().reason == "truncated_stream");
  CHECK(streamed(ApiShape::message, kMessageToken + event("error", R"(,"error":{"type":"overloaded_error"})"))
            .ending()
            .reason == "failed_answer");
  CHECK(streamed(ApiShape::message, "data: {\"choices\":[]}\n\n" + event("message_stop")).ending().reason ==
        "bad_body");
}

TEST_CASE("a stream of a response ends with response.completed or response.incomplete") {
  for (const char* end : {"response.completed", "response.incomplete"}) {
    const auto judge =
        streamed(ApiShape::response, event("response.created") + kResponseToken + kResponseToken +
                                         event(end, R"(,"response":{"status":"completed"})"));
    CHECK(judge.ending().outcome == Outcome::ok);
    CHECK(judge.complete());
    CHECK(judge.ending().inter_token_ms > 0);
  }
  CHECK(streamed(ApiShape::response, kResponseToken + event("response.failed")).ending().reason ==
        "failed_answer");
  CHECK(streamed(ApiShape::response, kResponseToken).ending().reason == "truncated_stream");
  CHECK(streamed(ApiShape::response, kResponseToken, "stalled").ending().reason == "stalled");
  CHECK(streamed(ApiShape::response, "data: oops\n\n").ending().reason == "bad_body");
  // Some servers send it all the same; it is no end.
  CHECK(streamed(ApiShape::response, kResponseToken + "data: [DONE]\n\n").ending().reason ==
        "truncated_stream");
  CHECK(streamed(ApiShape::response, event("response.completed") + "data: [DONE]\n\n").ending().outcome ==
        Outcome::ok);
}

TEST_CASE("a whole answer is judged by what its API promises") {
  CHECK(plain(ApiShape::response, R"({"status":"completed","output":[]})").ending().outcome == Outcome::ok);
  CHECK(plain(ApiShape::response, R"({"status":"failed","output":[]})").ending().reason == "failed_answer");
  CHECK(plain(ApiShape::response, R"({"choices":[]})").ending().reason == "bad_body");
  CHECK(plain(ApiShape::message, R"({"type":"message","content":[]})").ending().outcome == Outcome::ok);
  CHECK(plain(ApiShape::message, R"({"type":"error","error":{}})").ending().reason == "bad_body");
  CHECK(plain(ApiShape::embedding, R"({"data":[{"embedding":[0.1,-2e3]}]})").ending().outcome == Outcome::ok);
  CHECK(plain(ApiShape::embedding, R"({"data":{}})").ending().reason == "bad_body");
  CHECK(plain(ApiShape::embedding, R"({"x":{"data":[]}})").ending().reason == "bad_body");
}

TEST_CASE("of an answer that is not read, only the status and the framing are judged") {
  CHECK(plain(ApiShape::unread, "anything").ending().outcome == Outcome::ok);
  CHECK(plain(ApiShape::unread, "", 304).ending().outcome == Outcome::ok);
  CHECK(plain(ApiShape::unread, "", 404).ending().outcome == Outcome::excluded);
  CHECK(plain(ApiShape::unread, "", 500).ending().reason == "status_500");
  AnswerJudge stream(false, ApiShape::unread);  // nobody read whether a stream was asked for
  stream.head(200, "text/event-stream", 1);
  CHECK(stream.streamed());
  stream.part("data: whatever\n\n", 2);
  stream.end("", {}, 3);
  CHECK(stream.ending().outcome == Outcome::ok);
}

TEST_CASE("prompts are measured in the members that each shape has for them") {
  CHECK(facts_of(ApiShape::response, R"({"model":"m","instructions":"ab","input":"cde"})").prompt_chars == 5);
  CHECK(facts_of(ApiShape::response,
                 R"({"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"äb"}]},)"
                 R"({"role":"user","content":"c"}],"tools":[{"text":"none"}]})")
            .prompt_chars == 3);
  CHECK(facts_of(ApiShape::embedding, R"({"model":"m","input":["ab","c"],"stream":true})").prompt_chars == 3);
  CHECK_FALSE(facts_of(ApiShape::embedding, R"({"model":"m","input":"a","stream":true})").stream);
  CHECK(facts_of(ApiShape::embedding, R"({"model":"m","input":[[1,2],[3]]})").prompt_chars == 0);
  CHECK(facts_of(ApiShape::message,
                 R"({"model":"m","system":[{"type":"text","text":"ab"}],"messages":[{"content":"cde"}]})")
            .prompt_chars == 5);
}

TEST_CASE("the user of a message is in its metadata, and is no attribute of a slice") {
  const auto facts =
      facts_of(ApiShape::message, R"({"model":"m","metadata":{"user_id":"u1","language":"de"}})");
  CHECK(facts.user == "u1");
  CHECK_FALSE(facts.metadata.contains("user_id"));
  CHECK(facts.metadata.at("language") == "de");
  const auto other = facts_of(ApiShape::response, R"({"model":"m","user":"u2","metadata":{"user_id":"u1"}})");
  CHECK(other.user == "u2");
  CHECK(other.metadata.contains("user_id"));
}
