#pragma once

#include <string_view>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {

/// Reads a contract that was registered: as parse_contract, except that what only registration refuses is no fault.
/// A mean that no exact method decides (schema/contract/contract_means.hpp) was taken by earlier versions: promotions under
/// such a contract go on, and its clause stays inconclusive and says why.
[[nodiscard]] ContractReport parse_stored_contract(std::string_view text, std::string_view name);

}  // namespace driftgate::schema
