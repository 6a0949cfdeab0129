#include "daemon/route/http/operations.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace driftgate::route;

namespace {

constexpr auto kInvalid = driftgate::schema::ErrorCode::invalid_argument;

Operations with(std::string_view list) {
  const auto further = parse_further_paths(list);
  REQUIRE(further);
  return Operations(*further);
}

}  // namespace

TEST_CASE(
    "each path of the engines' APIs has its shape, and says what telemetry and mirrors may have of it") {
  const Operations operations;
  const auto* const chat = operations.find("/v1/chat/completions");
  REQUIRE(chat != nullptr);
  CHECK(chat->judged);
  CHECK(chat->mirrored);
  CHECK(chat->timed);
  const auto* const responses = operations.find("/v1/responses");
  REQUIRE(responses != nullptr);
  CHECK(responses->shape == ApiShape::response);
  CHECK(responses->judged);
  CHECK_FALSE(responses->mirrored);
  CHECK(operations.find("/v1/messages")->shape == ApiShape::message);
  CHECK_FALSE(operations.find("/v1/embeddings")->timed);
  CHECK(operations.find("/v1/embeddings")->judged);
  for (const char* path : {"/tokenize", "/detokenize"}) {
    CHECK_FALSE(operations.find(path)->judged);
    CHECK(operations.find(path)->repeatable("POST"));
    CHECK_FALSE(operations.find(path)->takes("GET"));
  }
  for (const char* path : {"/", "/v1", "/v1/models", "/v1/responses/", "/v1/responses/x", "/v1/completionsx"})
    CHECK(operations.find(path) == nullptr);
}

TEST_CASE("further paths are passed on exactly, or below one, whatever the method") {
  const auto operations = with("/v1/rerank,/v1/audio/*");
  const auto* const rerank = operations.find("/v1/rerank");
  REQUIRE(rerank != nullptr);
  CHECK_FALSE(rerank->judged);
  CHECK(rerank->takes("DELETE"));
  CHECK_FALSE(rerank->takes("HEAD"));
  CHECK_FALSE(rerank->takes("CONNECT"));
  CHECK(rerank->repeatable("GET"));
  CHECK_FALSE(rerank->repeatable("POST"));
  CHECK(operations.find("/v1/audio/speech") != nullptr);
  CHECK(operations.find("/v1/audio/a%20b/c") != nullptr);
  CHECK(operations.find("/v1/audio/") == nullptr);
  CHECK(operations.find("/v1/audio") == nullptr);
  CHECK(operations.find("/v1/rerank/x") == nullptr);
}

TEST_CASE("a path that engines could read as another one lies below nothing") {
  const auto operations = with("/v1/audio/*");
  for (const char* path : {"/v1/audio/../admin", "/v1/audio/./x", "/v1/audio/%2e%2e/admin",
                           "/v1/audio/%2E./x", "/v1/audio/a%2fb", "/v1/audio//x", "/v1/audio/a\\b",
                           "/v1/audio/%5cx", "/v1/audio/x/..", "/v1/audio/a%00"})
    CHECK_MESSAGE(operations.find(path) == nullptr, path);
}

TEST_CASE("what the router answers itself goes to no engine, whatever is configured") {
  const auto operations = with("/v1/*,/driftgat/*");
  for (const char* path : {"/v1/models", "/v1/models/a", "/health", "/driftgate/lease"})
    CHECK(operations.find(path) == nullptr);
  CHECK(operations.find("/v1/files") != nullptr);
  CHECK(operations.find("/v1/chat/completions")->judged);  // as without it
}

TEST_CASE("further paths that are none, or are served anyway, are refused") {
  for (const char* list :
       {"v1/rerank", "/*", "/a b", "/a?b", "/a*", "/a/../b", "/a//b", "/health", "/v1/models", "/v1/models/*",
        "/driftgate/x", "/v1/completions", "/tokenize", ",", "/a,,/b"})
    CHECK_MESSAGE(parse_further_paths(list).error().code == kInvalid, list);
  CHECK_FALSE(parse_further_paths("/" + std::string(kMaxPathBytes, 'a')));
  std::string many;
  for (std::size_t i = 0; i <= kMaxFurtherPaths; ++i) many += (i == 0 ? "/p" : ",/p") + std::to_string(i);
  CHECK_FALSE(parse_further_paths(many));
  CHECK(parse_further_paths("")->empty());
  CHECK(parse_further_paths("/a,/a")->size() == 1);
}

TEST_CASE("a model's path names it, encoded or not") {
  CHECK(model_of_path("/v1/models/tiny") == "tiny");
  CHECK(model_of_path("/v1/models/org/tiny") == "org/tiny");
  CHECK(model_of_path("/v1/models/org%2Ftiny") == "org/tiny");
  for (const char* path :
       {"/v1/models", "/v1/models/", "/v1/modelsx", "/v1/models/%2", "/v1/models/%zz", "/v2"})
    CHECK_FALSE(model_of_path(path));
}
