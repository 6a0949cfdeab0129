#pragma once

#include <string>
#include <vector>

#include "daemon/drift/inputs.hpp"

namespace driftgate::cli {

/// `driftgate contract diff A B`: what became stricter, looser, new or gone. Exit status: 0 no difference,
/// 1 some, 4 a contract has faults, 74 unreadable.
[[nodiscard]] int contract_diff_command(const std::string& before, const std::string& after, bool json);

struct SuggestArgs : drift::InputArgs {
  std::string name = "suggested";
  double headroom = 2;
  std::string out;  ///< file for the YAML; empty: standard output
};
/// The YAML that `contract suggest` writes. Errors of reading and measuring captures.
[[nodiscard]] schema::Result<std::string> suggested_contract(const SuggestArgs& args);
/// `driftgate contract suggest`: limits from captures, as YAML to review. Exit status: 0, 4, 64, 74.
[[nodiscard]] int contract_suggest(const SuggestArgs& args);

struct ContractTestArgs : drift::InputArgs {
  std::vector<std::string> good;    ///< further captures of K_inf that must pass
  std::vector<std::string> faults;  ///< "NAME=CAPTURE": captures of a broken K_inf that must not
  std::string slice;                ///< "language=de": what corrupted-slice corrupts; empty: chosen
  std::string work_dir;             ///< where faulty captures are written; empty: the temporary folder
  bool json = false;
};
/// `driftgate contract test FILE`: captures known to be good must pass, and each injected fault must be
/// caught; prints the matrix. Exit status: 0 both hold, 1 one does not, 4 a measurement could not be made,
/// 64, 74.
[[nodiscard]] int contract_test(const ContractTestArgs& args);

}  // namespace driftgate::cli
