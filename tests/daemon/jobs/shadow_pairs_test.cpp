#include "daemon/jobs/shadow_pairs.hpp"

#include <doctest/doctest.h>

#include <cmath>

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

TEST_CASE("a request with a filter or another temperature is not sampled as the kernel samples") {
  auto pair = pair_with(200, 200);
  CHECK(sampled_unfiltered(pair));
  for (const char* body : {R"({"prompt": "x", "temperature": 0.7})", R"({"prompt": "x", "top_p": 0.9})",
                           R"({"prompt": "x", "top_k": 5})", "{"}) {
    pair.request_body = body;
    CHECK_FALSE(sampled_unfiltered(pair));
  }
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
