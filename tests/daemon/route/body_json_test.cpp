#include "daemon/route/http/body_json.hpp"

#include <doctest/doctest.h>

using namespace driftgate::route;

TEST_CASE("what the router needs is read from a completion request") {
  const auto facts = scan_request_body(
      R"({"model":"m","user":"u","stream":true,"n":2,"max_tokens":7,"prompt":"hä?","metadata":{"language":"de","k":1}})");
  REQUIRE(facts);
  CHECK(facts->model == "m");
  CHECK(facts->user == "u");
  CHECK(facts->stream);
  CHECK(facts->choices == 2);
  CHECK(facts->max_tokens == 7);
  CHECK(facts->prompt_chars == 3);
  CHECK(facts->metadata == std::map<std::string, std::string>{{"language", "de"}});
}

TEST_CASE("members of nested objects are not taken for the request's own") {
  const auto facts = scan_request_body(
      R"({"tools":[{"model":"x","stream":true}],"model":"m","metadata":{"a":{"b":"c"},"d":["e"]},)"
      R"("messages":[{"role":"user","content":"abc"},{"role":"user","content":[{"type":"text","text":"de"}]}]})");
  REQUIRE(facts);
  CHECK(facts->model == "m");
  CHECK_FALSE(facts->stream);
  CHECK(facts->metadata.empty());
  CHECK(facts->prompt_chars == 5);
}

TEST_CASE("bodies that router and engine could understand differently are refused") {
  std::string deep = R"({"model":"m","x":)";
  for (int i = 0; i < 100; ++i) deep += '[';
  for (const std::string& body :
       {std::string(), std::string("[]"), std::string("1"), std::string("null"), std::string("{}"),
        std::string(R"({"model":1})"), std::string(R"({"model":""})"), std::string(R"({"model":"m")"),
        std::string(R"({"model":"m"} x)"), std::string(R"({"model":"a","model":"b"})"),
        std::string(R"({"model":"a","stream":true,"stream":false})"), std::string("{\"model\":\"\xff\"}"),
        std::string("{\"model\":\"m\",}"), deep + std::string(100, ']') + "}"}) {
    CAPTURE(body);
    CHECK_FALSE(scan_request_body(body));
  }
}

TEST_CASE("every truncation of a body is refused") {
  const std::string whole = R"({"model":"m","prompt":["a"],"metadata":{"x":"y"}})";
  REQUIRE(scan_request_body(whole));
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_FALSE(scan_request_body(whole.substr(0, size)));
}

TEST_CASE("a completion's answer is an object with choices") {
  CHECK(is_completion(R"({"id":"x","choices":[{"text":"a"}]})"));
  CHECK(is_completion(R"({"choices":[]})"));
  for (const char* body : {"", "ok", "[]", "{}", R"({"choices":1})", R"({"a":{"choices":[]}})",
                           R"({"choices":[})", R"({"choices":[]}{)", "<html></html>"}) {
    CAPTURE(body);
    CHECK_FALSE(is_completion(body));
  }
}
