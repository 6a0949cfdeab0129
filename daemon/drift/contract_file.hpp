#pragma once

#include <string>
#include <string_view>

#include "schema/contract/contract.hpp"
#include "schema/error.hpp"

namespace driftgate::drift {

/// The bytes of a contract file, at most one more than the parser allows, so that the parser refuses a file
/// that is too large. `io` when it cannot be read.
[[nodiscard]] schema::Result<std::string> read_contract_text(const std::string& path);

/// Parses a contract. `invalid_document` lists its faults as NAME:line:column.
[[nodiscard]] schema::Result<schema::Contract> parse_contract_text(std::string_view text,
                                                                   const std::string& name);

/// Reads and parses a contract. `invalid_document` lists its faults as PATH:line:column.
[[nodiscard]] schema::Result<schema::Contract> read_contract_file(const std::string& path);

}  // namespace driftgate::drift
