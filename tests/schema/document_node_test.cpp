#include "schema/document/document_node.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "schema/json.hpp"

namespace driftgate::schema {
namespace {

std::string canonical(std::string_view text) {
  std::vector<Fault> faults;
  const auto node = read_document(text, faults);
  return node ? canonical_json(to_json(*node)) : format_faults(faults, "f");
}

TEST_CASE("plain scalars follow the core schema of YAML 1.2 and quoted ones stay text") {
  CHECK(canonical("[1, -2, +3, 0o17, 0xff, 1.5, .5, 1., 1e3, 1E-3]") ==
        "[1,-2,3,15,255,1.5,0.5,1,1000,0.001]");
  CHECK(canonical("[true, False, TRUE, null, ~, Null, '', \"\"]") ==
        "[true,false,true,null,null,null,\"\",\"\"]");
  CHECK(canonical("[yes, no, on, 1_000, 0b1, 1:30, 2001-01-01, 1e, e3, ., +, 0x]") ==
        R"(["yes","no","on","1_000","0b1","1:30","2001-01-01","1e","e3",".","+","0x"])");
  CHECK(canonical("['1', \"true\", 'null']") == R"(["1","true","null"])");
  CHECK(canonical("a:\n- b: 1\n  c:\n- |\n  x\n  y\n") == R"({"a":[{"b":1,"c":null},"x\ny\n"]})");
}

TEST_CASE("what may not stand in a document is refused with line and column") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a: &x 1\n", "f:1:4: found the anchor \"&x\""},
      {"a: 1\nb: *x\n", "f:2:4: "},
      {"a: !!str 1\n", "found the tag \"tag:yaml.org,2002:str\""},
      {"a: !mine {b: 1}\n", "found the tag \"!mine\""},
      {"a: {<<: {b: 1}}\n", "f:1:5: found a merge key"},
      {"a: 1\nb: 2\na: 3\n",
       "f:3:1: the key \"a\" appears twice in this mapping; it first appeared on line 1"},
      {"? [1]\n: 2\n", "found a list or mapping as a key"},
      {"- {~: 2}\n", "found an empty key"},
      {"a: 1\n---\nb: 2\n", "a second document follows"},
      {"a: 9007199254740992\n", "integers go up to 2^53 - 1"},
      {"a: 1e999\n", "beyond the range of a double"},
      {"a: .nan\n", "numbers must be finite"},
      {"a: -.inf\n", "numbers must be finite"},
      {"a: [1, 2\n", "this is not valid YAML"},
      {"a: 'x\n", "this is not valid YAML"},
      {"", "the document is empty"},
      {"# only a comment\n", "the document is empty"},
      {"\xEF\xBB\xBF"
       "a: 1\n",
       "byte-order mark"},
      {"a: \"\xC0\x80\"\n", "f:1:5: this is not valid UTF-8"},
      {"a: 1\nb: \x01\n", "f:2:4: found the control character 0x01"},
      {"{\"a\": 1, \"a\": 2}", "appears twice"},
      {"{\"a\": 1,\n \"b\"}", "f:2:5: "}};
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    const std::string found = canonical(text);
    CAPTURE(found);
    CHECK(found.find(expected) != std::string::npos);
  }
}

TEST_CASE("the limits on size, depth and number of values hold in YAML and JSON") {
  const auto flow = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(canonical(flow(32)) == flow(32));
  CHECK(canonical(flow(33)).find("levels of nesting") != std::string::npos);
  CHECK(canonical(std::string(200'000, '[')).starts_with("f:"));
  CHECK(canonical("{\"a\":" + flow(31) + "}").find("levels") == std::string::npos);
  CHECK(canonical("{\"a\":" + flow(32) + "}").find("levels of nesting") != std::string::npos);

  std::string block;
  for (std::size_t i = 0; i < 9'999; ++i) block += "- 1\n";
  CHECK(canonical(block).starts_with("[1,1"));
  CHECK(canonical(block + "- 1\n").find("more than 10000 values") != std::string::npos);

  CHECK(canonical(std::string(kMaxDocumentBytes - 1, 'a') + "\n").size() == kMaxDocumentBytes + 1);
  CHECK(canonical(std::string(kMaxDocumentBytes + 1, 'a')).find("at most 262144 are accepted") !=
        std::string::npos);
}

TEST_CASE("aliases that would expand to millions of values are refused at the first anchor") {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c <= 'i'; ++c) {
    const std::string before(1, static_cast<char>(c - 1));
    bomb += std::string(1, c) + ": &" + c + " [*" + before + ", *" + before + ", *" + before + ", *" +
            before + "]\n";
  }
  CHECK(canonical(bomb).find("f:1:4: found the anchor \"&a\"") != std::string::npos);
}

TEST_CASE("JSON and YAML give the same tree with places of their own") {
  std::vector<Fault> faults;
  const auto json = read_document("{\n  \"a\": [1, \"\\ud83d\\ude00\\n\", {\"b\": -0.5e1}]\n}", faults);
  REQUIRE(json.has_value());
  CHECK(canonical_json(to_json(*json)) == "{\"a\":[1,\"\xF0\x9F\x98\x80\\n\",{\"b\":-5}]}");
  const auto& list = json->members.at(0).value;
  CHECK(list.position.line == 2);
  CHECK(list.position.column == 8);
  CHECK(list.items.at(2).members.at(0).value.position.column == 36);
}

}  // namespace
}  // namespace driftgate::schema
