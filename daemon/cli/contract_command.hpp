#pragma once

#include <string>
#include <vector>

namespace driftgate::cli {

/// `driftgate contract lint FILE…`: faults and warnings of each contract as FILE:line:column, with the
/// digest of those that are right. Exit status: 0 all right, 1 faults, 64 no file named, 74 unreadable.
[[nodiscard]] int contract_lint(const std::vector<std::string>& files, bool json);

/// `driftgate contract explain FILE`: what the contract demands stage by stage. Exit status as above.
[[nodiscard]] int contract_explain(const std::string& file, bool json);

}  // namespace driftgate::cli
