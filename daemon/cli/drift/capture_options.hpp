#pragma once

#include <string>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/contract/contract_tools.hpp"
#include "daemon/drift/inputs.hpp"

namespace CLI {
class App;
}

namespace driftgate::cli {

/// `--floor-train` and `--floor-inf`, each once or twice.
void add_floor_options(CLI::App& sub, drift::FloorArgs& into);
/// `--numeric-train` and the like: the captures of one stage of a promotion.
void add_stage_capture_options(CLI::App& sub, const std::string& stage, CaptureArgs& into);
void add_suggest_options(CLI::App& sub, SuggestArgs& into);
void add_contract_test_options(CLI::App& sub, ContractTestArgs& into);

}  // namespace driftgate::cli
