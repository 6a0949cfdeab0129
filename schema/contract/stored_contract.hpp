#pragma once

#include <string_view>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {

/// Parses a contract that was registered. It differs from parse_contract in two rules: a mean that no exact
/// method can decide (schema/contract/contract_means.hpp) is not a fault, nor is a canary that could wait for
/// a proof for ever (schema/contract/contract_guard.hpp). Earlier versions accepted such contracts;
/// promotions under them continue, and the verdict on such a mean is inconclusive and gives the reason.
[[nodiscard]] ContractReport parse_stored_contract(std::string_view text, std::string_view name);

}  // namespace driftgate::schema
