#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace driftgate::cli {

/// Every command with its options as JSON, from which manual pages and completions are made:
/// {"name", "text", "options": [{"names": ["--json"], "value": "TEXT", "flag", "positional", "required",
/// "many", "text"}], "commands": [the same]}.
[[nodiscard]] std::string command_table(const CLI::App& app);

/// Commands that main runs without the command line's help: for `--help` and the table.
void describe_direct_commands(CLI::App& app);

}  // namespace driftgate::cli
