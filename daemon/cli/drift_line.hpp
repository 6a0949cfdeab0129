#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace driftgate::cli {

/// Adds `driftgate drift`; `choose` is told what to run when it was chosen.
void add_drift_command(CLI::App& app, std::function<void(std::function<int()>)> choose);

}  // namespace driftgate::cli
