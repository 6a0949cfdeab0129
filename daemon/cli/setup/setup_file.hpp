#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

/// What a setup file (docs/recipes.md) has sections of, in the order in which they are applied.
enum class SetupKind : std::uint8_t { kernel, contract, engine, model, recipe, schedule };
/// "kernel"
[[nodiscard]] std::string_view to_string(SetupKind kind);

/// A resource that another one names and that has to be registered before it.
struct SetupReference {
  SetupKind kind{};
  std::string name{};
  schema::SourcePosition at{};
};

/// One resource of a setup file.
struct SetupItem {
  SetupKind kind{};
  std::string name{};  ///< of a recipe: its model
  schema::SourcePosition at{};
  /// Of a kernel and a contract the document, else what the API takes for it. Paths are absolute.
  nlohmann::json body{};
  std::string digest{};  ///< of a contract
  std::vector<SetupReference> needs{};
};

/// Reads a setup file and the files that it names. Relative paths are taken from its folder. The items come
/// in the order in which they are applied. `invalid_document` with all faults, a line for each:
/// "FILE:line:column: …"; `io` when the file itself cannot be read. "-" is standard input, and the folder
/// then the working directory.
[[nodiscard]] schema::Result<std::vector<SetupItem>> read_setup_file(const std::string& path);
/// "-" is "standard input" in messages.
[[nodiscard]] std::string name_of_file(const std::string& path);
/// The same of a text. `name` stands for it in messages, `folder` is absolute.
[[nodiscard]] schema::Result<std::vector<SetupItem>> parse_setup(std::string_view text,
                                                                 const std::string& name,
                                                                 const std::filesystem::path& folder);
/// The recipe of a file that holds nothing else, for `driftgate recipe set`: paths as above.
[[nodiscard]] schema::Result<nlohmann::json> read_recipe_file(const std::string& path);

}  // namespace driftgate::cli
