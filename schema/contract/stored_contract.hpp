#pragma once

#include <string_view>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {

/// Parses a contract that was registered. It differs from parse_contract in one rule: a mean that no exact
/// method can decide (schema/contract/contract_means.hpp) is not a fault. Earlier versions accepted such
/// contracts; promotions under them continue, and the verdict on such a clause is inconclusive and gives the
/// reason.
[[nodiscard]] ContractReport parse_stored_contract(std::string_view text, std::string_view name);

}  // namespace driftgate::schema
