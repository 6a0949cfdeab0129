#include "schema/contract/contract.hpp"

#include <string>

#include "tests/fuzz/unit.hpp"

/// Contracts as people write them, YAML and JSON.
void driftgate::fuzz::run(std::string_view bytes) {
  const auto report = schema::parse_contract(bytes, "fuzz");
  require(report.contract.has_value() == report.faults.empty(), "a contract or a fault, never both");
  if (!report.contract) return;
  const auto again = schema::parse_contract(report.contract->canonical_json, "canonical");
  require(again.contract.has_value(), "the canonical form of a contract is a contract");
  require(again.contract->digest == report.contract->digest, "the canonical form keeps the digest");
}
