#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/setup/example_files.hpp"

namespace driftgate::cli {

// What lies in a working folder, one daemon's settings and all that belongs to it. `init` writes it, `dev`
// runs it.

inline constexpr const char* kSettingsName = "driftgate.yaml";
inline constexpr const char* kApplyName = "apply.yaml";
inline constexpr const char* kDevName = "dev.json";  ///< what `dev` starts besides the daemon

/// The captures that a first contract is suggested from, absolute.
struct FirstCaptures {
  std::filesystem::path train, inf, corpus;
};

struct FolderPlan {
  std::filesystem::path folder;  ///< absolute
  std::optional<ExampleFiles> example;
  std::optional<FirstCaptures> captures;
  std::string contract;  ///< text of the first contract; empty: none
  std::uint16_t api_port = 0, router_port = 0;
  std::vector<std::uint16_t> engine_ports;  ///< of the example: f32 and bf16
};

struct FolderFile {
  std::string path;  ///< below the folder
  std::string text;
  mode_t mode = 0644;
};

/// The name that the first contract has in its file and in the apply file.
[[nodiscard]] std::string first_contract_path(const FolderPlan& plan);
/// Every file of the folder.
[[nodiscard]] std::vector<FolderFile> folder_files(const FolderPlan& plan);
/// The apply file alone (apply_text.cpp).
[[nodiscard]] std::string apply_text(const FolderPlan& plan);

/// A text as one word of a shell.
[[nodiscard]] std::string shell_word(const std::string& text);
/// A text as a string of YAML.
[[nodiscard]] std::string yaml_string(const std::string& text);

}  // namespace driftgate::cli
