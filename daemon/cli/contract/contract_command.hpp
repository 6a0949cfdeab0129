#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cli/service/client.hpp"

namespace CLI {
class App;
}

namespace driftgate::cli {

/// `driftgate contract lint FILE…`: faults and warnings of each contract as FILE:line:column, with the
/// digest of those that are right. Exit status: 0 all right, 1 faults, 64 no file named, 74 unreadable.
[[nodiscard]] int contract_lint(const std::vector<std::string>& files, bool json);

struct ExplainArgs {
  std::string file;
  double requests_per_second = 0;  ///< 0: not stated
  std::uint32_t run = 1;           ///< k: sizes at the level that the k-th run spends
  bool json = false;
  std::string engine;     ///< registered engine that would be the candidate; "": none
  std::string incumbent;  ///< registered engine that it would replace; "": one with every ability
};
void add_explain_options(CLI::App& sub, ExplainArgs& into);
/// `driftgate contract explain FILE`: what the contract demands stage by stage, and how much data it takes
/// when the truth is at half each limit; with `requests_per_second` also how long traffic takes to bring it;
/// with `engine` also which clauses cannot be decided for lack of an ability, for which the daemon is asked
/// (exit status of its errors as in every command that asks it). Exit status as above.
[[nodiscard]] int contract_explain(const ExplainArgs& args, const ConnectionArgs& connection);

}  // namespace driftgate::cli
