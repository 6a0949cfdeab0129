#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/error.hpp"
#include "schema/verdict.hpp"
#include "schema/verdict_rule.hpp"

namespace driftgate::evidence {

/// What of a contract binds the verdicts that are recorded under it. It is read from the stored document
/// without the parser that checks new contracts: what that one refuses one day is verified all the same.
struct ContractTerms {
  struct Clause {
    schema::Severity severity = schema::Severity::hard;
    bool on_critical = false;  ///< `slices` names the critical ones
  };
  std::map<std::string, Clause> clauses{};  ///< by address, "family.id"
  std::vector<schema::SliceWhere> critical{};
  std::optional<schema::DiscoveryTerms> discovery{};  ///< of `slices.discover`; nothing where there is none

  /// `invalid_document` for what is no contract.
  [[nodiscard]] static schema::Result<ContractTerms> read(std::string_view json);
  /// Why a verdict of `stage` cannot be one under this contract, or an empty text: an unknown clause, a role
  /// that its slice does not have, another severity than the role's.
  [[nodiscard]] std::string fault(const schema::ClauseVerdict& verdict, std::string_view stage) const;
};

}  // namespace driftgate::evidence
