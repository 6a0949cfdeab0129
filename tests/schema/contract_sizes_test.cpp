#include <doctest/doctest.h>

#include <string>

#include "schema/contract/contract.hpp"
#include "tests/schema/contract_text.hpp"

namespace driftgate::schema {
namespace {

constexpr std::string_view kTv =
    "{id: tv, metric: tv, aggregate: mean, max: 0.02, slices: [critical], min_sequences: 175}";

ContractReport with(const std::string& clauses, const std::string& min_sequences = "120") {
  std::string text = contract_with(kTv, clauses);
  REQUIRE_FALSE(text.empty());
  const std::string place = "  critical:";
  text.replace(text.find(place), place.size(), "  min_sequences: " + min_sequences + "\n" + place);
  ContractReport report = parse_contract(text, "c");
  REQUIRE_MESSAGE(report.contract.has_value(), format_faults(report.faults, "c") << text);
  return report;
}

std::string warnings(const ContractReport& report) {
  return format_faults(report.warnings, "c");
}

bool says(const ContractReport& report, const std::string& words) {
  return warnings(report).find(words) != std::string::npos;
}

const std::string kClipped =
    "{id: tv, metric: tv, aggregate: sequence_mean, clip: 0.25, max: 0.02, slices: [critical]}";
std::string tail(const std::string& max, const std::string& more) {
  return "{id: tv-tail, metric: tv, aggregate: p97, over: sequences, max: " + max + more + "}";
}

}  // namespace

TEST_CASE("a critical slice that would be tested and could not pass is told with the number that it takes") {
  const std::string clauses = kClipped + "\n  - " + tail("0.25", ", slices: [critical]");
  const ContractReport few = with(clauses, "100");
  CHECK(says(few,
             "statistical.tv-tail needs at least 116 sequences of a critical slice in a first run, and "
             "min_sequences is "
             "100: a slice between the two is tested and cannot pass; write min_sequences: 116"));
  CHECK_FALSE(says(few, "statistical.tv needs"));
  CHECK_FALSE(says(with(clauses, "116"), "cannot pass;"));
  CHECK_FALSE(
      says(with(kClipped + "\n  - " + tail("0.25", ", slices: [critical], min_sequences: 116"), "100"),
           "cannot pass;"));
  // Monitored slices that lack data do not block: fewer sequences can still show harm.
  CHECK_FALSE(
      says(with("{id: tv, metric: tv, aggregate: sequence_mean, max: 0.02, slices: [monitored]}", "20"),
           "cannot pass;"));
}

TEST_CASE(
    "a min_sequences that hides slices which could be decided is told with the corpus that it asks for") {
  const std::string clauses = kClipped + "\n  - " + tail("0.25", ", slices: [critical]");
  CHECK(says(with(clauses, "200"),
             "slices: with min_sequences: 200 a slice that is 5% of the corpus is never looked at unless the "
             "corpus has 4000 sequences, though every clause on slices can be decided from 116 on; write "
             "min_sequences: 116"));
  CHECK_FALSE(says(with(clauses, "150"), "never looked at"));
  const std::string own = kClipped + "\n  - " + tail("0.25", ", slices: [critical], min_sequences: 200");
  CHECK(says(with(own, "116"), "though statistical.tv-tail can be decided from 116 on"));
  // The mean can be decided from 43 on, but its quantile clause takes 116.
  CHECK_FALSE(says(with(kClipped.substr(0, kClipped.size() - 1) + ", min_sequences: 120}\n  - " +
                            tail("0.25", ", slices: [critical]"),
                        "116"),
                   "never looked at"));
}

}  // namespace driftgate::schema
