#pragma once

#include <string>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {

/// What a change does to what a checkpoint must show: `changed` where neither word would be true.
enum class ChangeKind : std::uint8_t { stricter, looser, added, removed, changed };
[[nodiscard]] std::string_view to_string(ChangeKind kind);

/// One difference between two contracts. A clause that only one of them has is one change.
struct ContractChange {
  ChangeKind kind{};
  std::string where;          ///< "numerical.kl max", "stages.canary.bake", "escalation runtime.errors"
  std::string before, after;  ///< as a person would write them; empty when absent
};

/// What became stricter, looser, new or gone between `before` and `after`, in the order of the document.
/// The name, description and owners are not compared: they demand nothing.
[[nodiscard]] std::vector<ContractChange> contract_diff(const Contract& before, const Contract& after);

/// Lines for a person, grouped by kind; "no difference in what is demanded" when there is none.
[[nodiscard]] std::string to_text(const std::vector<ContractChange>& changes);
/// [{"kind", "where", "before", "after"}].
[[nodiscard]] std::string to_json(const std::vector<ContractChange>& changes);

}  // namespace driftgate::schema
