#pragma once

#include <string>
#include <vector>

#include "daemon/cli/setup/deployment.hpp"

namespace driftgate::cli::test {

struct Ran {
  int exit_code = 0;
  std::string out, err;
};

/// Runs a command line in this process and catches what it prints. `deployment`: what any settings say.
Ran run_captured(const std::vector<std::string>& words, const Deployment* deployment = nullptr);

/// A file with `text` in a fresh folder that goes with the process.
std::string file_with(const std::string& text);

}  // namespace driftgate::cli::test
