#pragma once

#include <string>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {

/// The effect of a change on what a checkpoint must show. `changed`: neither stricter nor looser for certain.
/// `added` and `removed`: a clause, or a setting outside the clauses, that only one contract has.
enum class ChangeKind : std::uint8_t { stricter, looser, added, removed, changed };
[[nodiscard]] std::string_view to_string(ChangeKind kind);

/// One difference between two contracts. A clause that only one of them has is a single change.
struct ContractChange {
  ChangeKind kind{};
  std::string where;          ///< "numerical.kl max", "stages.canary.bake", "escalation runtime.errors"
  std::string before, after;  ///< the values as text; empty where the value is absent
};

/// The differences between two contracts: first the settings that `before` has, then those that only `after`
/// has, then the clauses that were removed, then those that were added. Name, description and owners are not
/// compared, since they demand nothing.
[[nodiscard]] std::vector<ContractChange> contract_diff(const Contract& before, const Contract& after);

/// The changes as lines of text, grouped by kind; "No difference in what is demanded." without any.
[[nodiscard]] std::string to_text(const std::vector<ContractChange>& changes);
/// The changes as a canonical JSON array of objects with the members kind, where, before and after.
[[nodiscard]] std::string to_json(const std::vector<ContractChange>& changes);

}  // namespace driftgate::schema
