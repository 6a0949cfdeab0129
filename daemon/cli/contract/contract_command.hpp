#pragma once

#include <string>
#include <vector>

namespace driftgate::cli {

/// `driftgate contract lint FILE…`: faults and warnings of each contract as FILE:line:column, with the
/// digest of those that are right. Exit status: 0 all right, 1 faults, 64 no file named, 74 unreadable.
[[nodiscard]] int contract_lint(const std::vector<std::string>& files, bool json);

/// `driftgate contract explain FILE`: what the contract demands stage by stage, and how much data it takes
/// when the truth is at half each limit; with `requests_per_second` over 0 also how long traffic takes to
/// bring it. Exit status as above.
[[nodiscard]] int contract_explain(const std::string& file, double requests_per_second, bool json);

}  // namespace driftgate::cli
