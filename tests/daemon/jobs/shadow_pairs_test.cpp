#include "daemon/jobs/shadow_pairs.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/jobs/engines/engine_client.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using stages::RequestOutcome;

namespace {

route::MirroredPair pair_with(int incumbent, int candidate, const std::string& reason = {}) {
  route::MirroredPair pair;
  pair.order = 7;
  pair.key_hash = 0xffff'ffff'ffff'fff1;
  pair.slice = "language=de";
  pair.path = "/v1/completions";
  pair.request_body = R"({"prompt": "Hallo", "max_tokens": 4})";
  pair.incumbent.status = incumbent;
  pair.candidate.status = candidate;
  pair.candidate.reason = reason;
  pair.incumbent.ttft_ms = 3;
  return pair;
}

}  // namespace

TEST_CASE("each way in which a side ends has its outcome") {
  CHECK(pair_of(pair_with(200, 200)).candidate == RequestOutcome::ok);
  CHECK(pair_of(pair_with(200, 200, "truncated_stream")).candidate == RequestOutcome::failed);
  CHECK(pair_of(pair_with(200, 500)).candidate == RequestOutcome::failed);
  CHECK(pair_of(pair_with(200, 429)).candidate == RequestOutcome::failed);
  CHECK(pair_of(pair_with(200, 0, "connect")).candidate == RequestOutcome::failed);
  CHECK(pair_of(pair_with(200, 404)).candidate == RequestOutcome::excluded);
}

TEST_CASE("pair records survive their lines, unknown latencies and 64-bit keys included") {
  auto pair = pair_of(pair_with(200, 500));
  pair.equal_tokens = 3;
  pair.compared_tokens = 4;
  pair.batch_variant = true;
  pair.greedy = stages::GreedyAgreement{5, 32};
  pair.greedy_floor = stages::GreedyAgreement{32, 32};
  pair.unlisted_tokens = true;
  pair.candidate_in_flight = 8;
  const auto again = pairs_from_jsonl(pairs_to_jsonl({pair, pair}));
  REQUIRE(again.has_value());
  REQUIRE(again->size() == 2);
  const auto& back = again->front();
  CHECK(back.key_hash == pair.key_hash);
  CHECK(back.candidate == RequestOutcome::failed);
  CHECK(back.incumbent_latency.ttft_ms == 3);
  CHECK(std::isnan(back.candidate_latency.ttft_ms));
  CHECK(back.equal_tokens == 3U);
  CHECK(back.batch_variant == true);
  CHECK(back.greedy == pair.greedy);
  CHECK(back.greedy_floor == pair.greedy_floor);
  CHECK(back.unlisted_tokens);
  CHECK(back.candidate_in_flight == 8U);
  CHECK_FALSE(back.incumbent_in_flight.has_value());
  const auto text = pairs_to_jsonl({pair});
  for (std::size_t n = 1; n + 1 < text.size(); ++n)
    CHECK_FALSE(pairs_from_jsonl(text.substr(0, n)).has_value());
}

TEST_CASE("a salt before pair records changes their digest and nothing else") {
  const auto pair = pair_of(pair_with(200, 500));
  const auto salted = pairs_to_jsonl({pair}, "aa");
  CHECK(salted == "{\"salt\":\"aa\"}\n" + pairs_to_jsonl({pair}));
  const auto back = pairs_from_jsonl(salted);
  REQUIRE(back.has_value());
  CHECK(pairs_to_jsonl(*back) == pairs_to_jsonl({pair}));
  CHECK_FALSE(pairs_from_jsonl(pairs_to_jsonl({pair}) + "{\"salt\":\"aa\"}\n").has_value());
}

TEST_CASE("generated text and tokens are read from JSON answers and from streams") {
  route::MirroredPair::Side side;
  side.body =
      R"({"choices": [{"text": "abc", "token_ids": [1, 2], "prompt_token_ids": [9], "logprobs": {"tokens": ["a", "bc"], "token_logprobs": [-1, -2]}}]})";
  CHECK(generated_of(side).text == "abc");
  CHECK(generated_of(side).tokens == std::vector<std::string>{"a", "bc"});
  CHECK(generated_of(side).ids == std::vector<std::int64_t>{1, 2});
  side.body =
      "data: {\"choices\": [{\"text\": \"ab\", \"token_ids\": [1]}]}\r\n\r\ndata: {\"choices\": [{\"text\": "
      "\"c\", \"token_ids\": [2]}]}\n\ndata: [DONE]\n\n";
  CHECK(generated_of(side).text == "abc");
  CHECK(generated_of(side).ids == std::vector<std::int64_t>{1, 2});
  side.body = R"({"choices": [{"message": {"content": "chat"}}]})";
  CHECK(generated_of(side).text == "chat");
  for (const char* garbage : {"", "null", "{", "{\"choices\": 3}", "data: {", "\xff\xfe"}) {
    side.body = garbage;
    CHECK(generated_of(side).text.empty());
  }
}

TEST_CASE("generated tokens agree up to the first difference, and an early end is a difference") {
  const auto agreement = [](std::vector<std::string> a, std::vector<std::string> b) {
    const auto found = compare_generated({.tokens = std::move(a)}, {.tokens = std::move(b)});
    return std::pair(found.equal, found.compared);
  };
  CHECK(agreement({"a", "b"}, {"a", "b"}) == std::pair(2U, 2U));
  CHECK(agreement({"a", "b"}, {"a", "c"}) == std::pair(1U, 2U));
  CHECK(agreement({"a", "b"}, {"a"}) == std::pair(1U, 2U));
}

TEST_CASE("pair records with an agreement that no answers can have are refused") {
  const auto line = pairs_to_jsonl({pair_of(pair_with(200, 200))});
  const auto with = [&](const std::string& members) {
    return pairs_from_jsonl(line.substr(0, line.size() - 2) + "," + members + "}\n");
  };
  REQUIRE(with(R"("greedy":[32,32])").has_value());
  for (const char* members :
       {R"("greedy":[33,33])", R"("greedy":[5,4])", R"("greedy":[-1,4])", R"("greedy":[1])", R"("greedy":3)",
        R"("greedy_floor":["1",2])", R"("unlisted_tokens":1)"}) {
    CAPTURE(members);
    CHECK_FALSE(with(members).has_value());
  }
}

namespace {

/// An answer of a llama.cpp server of these tokens; `stated` is what it says to have generated.
Generated answer_of(const std::vector<std::pair<int, std::string>>& tokens, int stated,
                    const char* finish = "length") {
  nlohmann::json content = nlohmann::json::array();
  std::string text;
  for (const auto& [id, token] : tokens) {
    nlohmann::json bytes = nlohmann::json::array();
    for (const char c : token) bytes.push_back(static_cast<unsigned char>(c));
    content.push_back({{"id", id}, {"token", token}, {"bytes", bytes}, {"logprob", -0.5}});
    text += token;
  }
  const nlohmann::json choice{
      {"text", text}, {"logprobs", {{"content", content}}}, {"finish_reason", finish}};
  nlohmann::json body{{"choices", nlohmann::json::array({choice})}};
  if (stated >= 0) body["usage"] = {{"completion_tokens", stated}};
  route::MirroredPair::Side side;
  side.body = body.dump();
  return generated_of(side);
}

}  // namespace

TEST_CASE("an answer that lists fewer tokens than it has is known as such, and its ids are not taken") {
  const auto whole = answer_of({{1, "a"}, {2, "ä"}}, 2);
  CHECK(whole.lists_all);
  CHECK(whole.ids == std::vector<std::int64_t>{1, 2});
  // Three tokens, of which two are the character: one entry, with the id of the second.
  const auto merged = answer_of({{1, "a"}, {9, "ä"}}, 3);
  CHECK_FALSE(merged.lists_all);
  CHECK(merged.ids.empty());
  CHECK(merged.tokens == std::vector<std::string>{"a", "ä"});
  // A character that was cut off at the end is not listed at all.
  CHECK_FALSE(answer_of({{1, "a"}}, 3).lists_all);
  // The end token, or those of a stop word, need not be listed.
  CHECK(answer_of({{1, "a"}, {2, "b"}}, 3, "stop").lists_all);
  CHECK_FALSE(answer_of({{1, "a"}, {9, "ä"}}, 3, "stop").lists_all);
  CHECK_FALSE(answer_of({{1, "a"}, {2, "b"}}, 1).lists_all);
  // Without a count, a character beyond ASCII may be several tokens.
  CHECK(answer_of({{1, "a"}, {2, "b"}}, -1).lists_all);
  CHECK_FALSE(answer_of({{1, "a"}, {2, "ä"}}, -1).lists_all);
}

TEST_CASE("a stream counts its tokens in its last event") {
  const std::string event =
      R"(data: {"choices":[{"index":0,"text":"ä","logprobs":{"content":[{"id":9,"token":"ä","logprob":-1}]}}]})";
  const auto with = [&](int count) {
    route::MirroredPair::Side side;
    side.body = event + "\n\n" + event +
                "\n\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":" + std::to_string(count) +
                "}}\n\ndata: [DONE]\n\n";
    return generated_of(side);
  };
  CHECK(with(2).lists_all);
  CHECK(with(2).ids == std::vector<std::int64_t>{9, 9});
  CHECK_FALSE(with(4).lists_all);
  CHECK(with(4).ids.empty());
}

TEST_CASE("ids that an answer gives apart from its log-probabilities are those of all tokens") {
  route::MirroredPair::Side side;
  side.body = R"({"choices":[{"text":"ab","token_ids":[1,2,3]}],"usage":{"completion_tokens":3}})";
  CHECK(generated_of(side).ids == std::vector<std::int64_t>{1, 2, 3});
}

TEST_CASE("several choices are counted together, so their count says nothing of the first") {
  route::MirroredPair::Side side;
  side.body =
      R"({"choices":[{"text":"a","logprobs":{"content":[{"id":1,"token":"a","logprob":-1}]}},{"text":"b"}],"usage":{"completion_tokens":2}})";
  CHECK(generated_of(side).lists_all);
}

TEST_CASE("greedy answers are compared token by token up to the horizon, by ids where both have them") {
  const auto tokens = [](std::size_t count, std::size_t differs) {
    std::vector<std::pair<int, std::string>> list;
    for (std::size_t i = 0; i < count; ++i) list.emplace_back(i == differs ? 99 : static_cast<int>(i), "t");
    return answer_of(list, static_cast<int>(count));
  };
  const auto agreement = [](const Generated& a, const Generated& b) {
    const auto found = greedy_agreement(a, b);
    REQUIRE(found.has_value());
    return std::pair(found->equal, found->longest);
  };
  // The texts are alike and the ids differ in the fourth token.
  CHECK(agreement(tokens(8, 8), tokens(8, 3)) == std::pair(3U, 8U));
  CHECK(agreement(tokens(5, 9), tokens(7, 9)) == std::pair(5U, 7U));
  CHECK(agreement(tokens(40, 90), tokens(40, 90)) == std::pair(32U, 32U));
  CHECK(agreement(tokens(40, 35), tokens(40, 90)) == std::pair(32U, 32U));
  // One engine gives no ids: the texts decide.
  CHECK(agreement({.text = "tt", .tokens = {"t", "t"}}, tokens(2, 0)) == std::pair(2U, 2U));
  CHECK(agreement({}, {}) == std::pair(0U, 0U));
  CHECK(agreement({}, tokens(2, 9)) == std::pair(0U, 2U));
  // Of a text without tokens nothing is known, nor of tokens that are not all there.
  CHECK_FALSE(greedy_agreement({.text = "tt"}, tokens(2, 9)).has_value());
  CHECK_FALSE(greedy_agreement(answer_of({{1, "ä"}}, 2), tokens(2, 9)).has_value());
}

TEST_CASE(
    "tokens are sampled from the kernel's own distribution only where the request or the engine says so") {
  auto pair = pair_with(200, 200);
  const auto of = [&](const char* body, const SamplingDefaults& defaults = {}) {
    pair.request_body = body;
    return sampling_of(pair, defaults);
  };
  const SamplingDefaults neutral{
      {"temperature", 1}, {"top_p", 1}, {"top_k", 0}, {"min_p", 0}, {"repeat_penalty", 1}};
  const char* silent = R"({"prompt": "x"})";
  CHECK(of(silent) == Sampling::unknown);
  CHECK(of(silent, neutral) == Sampling::unfiltered);
  CHECK(of("{", neutral) == Sampling::unknown);
  const char* stated =
      R"({"prompt":"x","temperature":1,"top_p":1,"top_k":-1,"min_p":0,"repetition_penalty":1})";
  CHECK(of(stated) == Sampling::unfiltered);
  for (const char* body : {R"({"prompt": "x", "temperature": 0.7})", R"({"prompt": "x", "top_p": 0.9})",
                           R"({"prompt": "x", "top_k": 5})", R"({"prompt": "x", "repeat_penalty": 1.1})",
                           R"({"prompt": "x", "frequency_penalty": 0.5})", R"({"prompt": "x", "top_p": "1"})",
                           R"({"prompt": "x", "logit_bias": {"3": 5}})"}) {
    CAPTURE(body);
    CHECK(of(body, neutral) == Sampling::filtered);
    CHECK(of(body) == Sampling::filtered);
  }
  CHECK(of(R"({"prompt": "x", "logit_bias": {}})", neutral) == Sampling::unfiltered);
}

TEST_CASE("what llama.cpp takes where a request is silent is read from /props, and is a filter") {
  // In the shape of llama.cpp's /props, with the settings that its build 11669 states beside an answer.
  const auto defaults = sampling_defaults(
      R"({"default_generation_settings":{"id":0,"n_ctx":4096,"params":{"temperature":0.800000011920929,"top_k":40,"top_p":0.949999988079071,"min_p":0.05000000074505806,"typical_p":1.0,"repeat_penalty":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"mirostat":0}},"total_slots":4})");
  CHECK(defaults.at("temperature") == doctest::Approx(0.8));
  CHECK(defaults.at("top_k") == 40);
  auto pair = pair_with(200, 200);
  CHECK(sampling_of(pair, defaults) == Sampling::filtered);
  pair.request_body = R"({"prompt":"x","temperature":1,"top_k":0,"top_p":1,"min_p":0})";
  CHECK(sampling_of(pair, defaults) == Sampling::unfiltered);
  pair.request_body = R"({"prompt":"x","temperature":1,"top_k":0,"top_p":1})";
  CHECK(sampling_of(pair, defaults) == Sampling::filtered);
  const auto older = sampling_defaults(R"({"default_generation_settings":{"temperature":1,"top_k":0}})");
  CHECK(older.at("top_k") == 0);
  for (const char* none : {"", "[]", "{}", R"({"default_generation_settings":3})",
                           R"({"default_generation_settings":{"params":{"top_k":"40"}}})"})
    CHECK(sampling_defaults(none).empty());
}

TEST_CASE("log-probabilities of another shape are refused, unknown ones are NaN") {
  const auto scored = parse_logprobs(
      R"({"choices": [{"logprobs": {"tokens": ["a", "b", "c"], "token_logprobs": [null, -9999.0, -0.5], "text_offset": [0, 1, 2]}}]})");
  REQUIRE(scored.has_value());
  CHECK(std::isnan(scored->logprobs[0]));
  CHECK(std::isnan(scored->logprobs[1]));
  CHECK(scored->logprobs[2] == -0.5);
  for (const char* bad :
       {"{}", R"({"choices": []})", R"({"choices": [{"logprobs": null}]})",
        R"({"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": []}}]})", "<html>"}) {
    CHECK_FALSE(parse_logprobs(bad).has_value());
  }
}
