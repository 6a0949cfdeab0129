#include "gpu/capture/corpus.hpp"

#include <doctest/doctest.h>

#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;

TEST_CASE("a corpus gives each sequence's attributes and leaves other fields alone") {
  const auto corpus = parse_corpus(
      "{\"sequence\": 3, \"id\": \"a\", \"slices\": {\"language\": \"de\"}, \"reward\": 0.5, \"text\": [1, "
      "2]}\r\n"
      "\n"
      "{\"sequence\": -1, \"cluster\": \"c\", \"advantage\": 1, \"correct\": {\"train\": true, \"inf\": "
      "false}, "
      "\"confidence\": {\"train\": 0.25}, \"slices\": {\"language\": null}}",
      "c.jsonl");
  REQUIRE(corpus);
  REQUIRE(corpus->sequences.size() == 2);
  const SequenceInfo* first = corpus->find(3);
  REQUIRE(first != nullptr);
  CHECK(first->id == "a");
  CHECK(first->slices.at("language") == "de");
  CHECK(first->reward == 0.5);
  CHECK_FALSE(first->advantage);
  CHECK_FALSE(first->correct_train);
  const SequenceInfo* second = corpus->find(-1);
  REQUIRE(second != nullptr);
  CHECK(second->slices.empty());
  CHECK(second->cluster == "c");
  CHECK(second->advantage == 1.0);
  CHECK(second->correct_train == true);
  CHECK(second->correct_inf == false);
  CHECK(second->confidence_train == 0.25);
  CHECK_FALSE(second->confidence_inf);
  CHECK(corpus->find(7) == nullptr);
}

TEST_CASE("a fault of a corpus is named with its line and field") {
  const std::pair<const char*, const char*> cases[] = {
      {"{}", "'sequence' (an integer) is needed"},
      {R"({"sequence": 1.5})", "'sequence' (an integer) is needed"},
      {R"({"sequence": "1"})", "'sequence' (an integer) is needed"},
      {"[1]", "an object is needed"},
      {R"({"sequence": 1, "id": 5})", "'id' must be a string"},
      {R"({"sequence": 1, "slices": []})", "'slices' must be an object"},
      {R"({"sequence": 1, "slices": {"l": 1}})", "'slices.l' must be a string"},
      {R"({"sequence": 1, "slices": {"": "x"}})", "must be a string"},
      {R"({"sequence": 1, "reward": "x"})", "'reward' must be a number"},
      {R"({"sequence": 1, "correct": {"train": 1}})", "'correct.train' must be true or false"},
      {R"({"sequence": 0})", "sequence 0 is already on an earlier line"},
      {R"({"sequence": 1, "sequence": 2})", "c.jsonl:2"},
      {R"({"sequence": 1)", "c.jsonl:2"},
  };
  for (const auto& [line, part] : cases) {
    const auto corpus = parse_corpus(std::string("{\"sequence\": 0}\n") + line, "c.jsonl");
    CAPTURE(line);
    REQUIRE_FALSE(corpus);
    CAPTURE(corpus.error().describe());
    CHECK(corpus.error().describe().find(part) != std::string::npos);
    CHECK(corpus.error().describe().find("c.jsonl:2") != std::string::npos);
  }
}

TEST_CASE("a line over its limit is refused") {
  const std::string line = R"({"sequence": 1, "text": ")" + std::string(kMaxCorpusLineBytes, 'x') + "\"}";
  const auto corpus = parse_corpus(line, "c.jsonl");
  REQUIRE_FALSE(corpus);
  CHECK(corpus.error().code == schema::ErrorCode::limit_exceeded);
}

TEST_CASE("every truncation of a corpus line is refused or is a shorter corpus") {
  const std::string text = "{\"sequence\": 1, \"slices\": {\"a\": \"b\"}}\n{\"sequence\": 22}\n";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const auto corpus = parse_corpus(text.substr(0, size), "c");
    if (corpus)
      CHECK(corpus->sequences.size() <= 2);
    else
      CHECK(corpus.error().describe().starts_with("c:"));
  }
}

TEST_CASE("a corpus file is read whole and a missing one is named") {
  const auto corpus = read_corpus("tests/vectors/tiny_corpus.jsonl");
  REQUIRE(corpus);
  CHECK(corpus->sequences.size() == 48);
  const auto missing = read_corpus("tests/vectors/none.jsonl");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == schema::ErrorCode::not_found);
}
