#pragma once

#include <string>
#include <vector>

#include "gpu/drift.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

/// The bytes of a contract file, one more than the parser allows at most, so that it sees a file that is too
/// large and says so. `io` when it cannot be read.
[[nodiscard]] schema::Result<std::string> read_contract_text(const std::string& path);

/// Reads and parses a contract. `invalid_document` lists its faults as PATH:line:column.
[[nodiscard]] schema::Result<schema::Contract> read_contract_file(const std::string& path);

/// Prints an error of a command without a daemon. 64 for an argument that makes no sense, 74 for a
/// file that is not there, else `report`'s.
[[nodiscard]] int report_offline(const schema::Error& error);

/// What a table must hold so that the clauses of `contract` can be decided on it.
[[nodiscard]] gpu::MeasureOptions options_for(const schema::Contract& contract,
                                              const std::vector<gpu::SequenceInfo>& infos);

}  // namespace driftgate::cli
