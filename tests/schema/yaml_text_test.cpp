#include "schema/document/yaml_text.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "schema/contract/contract.hpp"
#include "schema/document/document_node.hpp"
#include "schema/json.hpp"

using namespace driftgate::schema;
using nlohmann::json;

namespace {

json read_back(const std::string& text) {
  std::vector<Fault> faults;
  const auto node = read_document(text, faults);
  REQUIRE_MESSAGE(node.has_value(), text << "\n" << format_faults(faults, "yaml"));
  return to_json(*node);
}

}  // namespace

TEST_CASE("every shipped contract that is printed as YAML is the same contract when it is read") {
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator("configs/contracts")) {
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    const auto contract = parse_contract(text.str(), entry.path().string());
    REQUIRE(contract.contract.has_value());
    const auto printed = yaml_text(json::parse(contract.contract->canonical_json));
    CAPTURE(printed);
    const auto again = parse_contract(printed, "printed");
    REQUIRE_MESSAGE(again.contract.has_value(), format_faults(again.faults, "printed"));
    CHECK(again.contract->digest == contract.contract->digest);
    CHECK(printed.starts_with("apiVersion: driftgate/v1\nkind: KernelContract\n"));
    for (const auto& clause : again.contract->clauses) CHECK(clause.position.line > 0);
    ++read;
  }
  CHECK(read >= 4);
}

TEST_CASE("a clause begins with its id, on the line that is reported for it") {
  const auto text = yaml_text({{"runtime",
                                {{{"id", "same-tokens-tail"},
                                  {"metric", "abs_log_ratio"},
                                  {"aggregate", "p97"},
                                  {"over", "sequences"},
                                  {"max", 2},
                                  {"stages", {"shadow-runtime"}}}}},
                               {"stages", json::object()}});
  CHECK(text.starts_with("runtime:\n  - id: same-tokens-tail\n"));
  CHECK(text.find("    max: 2\n    stages: [shadow-runtime]\nstages: {}\n") != std::string::npos);
}

TEST_CASE("text that YAML would read as something else is quoted") {
  const json document{
      {"a",
       {"yes", "No", "null", "~", "1", "1e3", "0x10", "007", ".inf", "true", "2026-01-01", "60s", "", " x",
        "x "}},
      {"b",
       {"a: b", "a #b", "- a", "[a]", "{a", "*a", "&a", "!a", "%a", "@a", "`a", "'", "\"", "\\", "a\nb",
        "ü ↯"}},
      {"c", {{"key with: colon", 1}, {"<<", "merge"}, {"", "empty"}, {"5", true}}},
      {"d", {nullptr, true, false, 0, -1, 1e-9, 0.1, 123456789012.5, 1e21}},
      {"e", {json::array(), json::object(), {{"f", json::array({json::array({1, 2}), json::object()})}}}}};
  const auto text = yaml_text(document);
  CAPTURE(text);
  CHECK(canonical_json(read_back(text)) == canonical_json(document));
}

TEST_CASE("long members are broken into lines and short ones are not") {
  json document{{"metadata", {{"name", "x"}, {"description", std::string(200, 'd')}}},
                {"numerical", json::array({{{"metric", "tv"}, {"id", "a"}, {"max", 1}}})}};
  CHECK(yaml_text(document) == "metadata:\n  name: x\n  description: " + std::string(200, 'd') +
                                   "\nnumerical:\n  - {id: a, metric: tv, max: 1}\n");
  document = {{"rules", json::array({{{"match", std::string(80, 'm')}, {"action", std::string(80, 'a')}}})}};
  CHECK(yaml_text(document) ==
        "rules:\n  - match: " + std::string(80, 'm') + "\n    action: " + std::string(80, 'a') + "\n");
}
