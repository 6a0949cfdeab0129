#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/service/client.hpp"
#include "daemon/cli/setup/setup_file.hpp"

namespace driftgate::cli {

enum class SetupAction : std::uint8_t { unchanged, created, changed };

/// What is to be done about an item of a setup file.
struct SetupStep {
  SetupItem item{};
  SetupAction action = SetupAction::unchanged;
  std::vector<std::string> differences{};  ///< in words; of a resource that is there
  std::string note{};                      ///< of something that is left as it is
  std::optional<std::int64_t> revision{};  ///< that was read, where a change has to name it
};

/// Compares each item with what the daemon has, and changes nothing. All that the API cannot do and all that
/// is named but nowhere registered is one error, `conflict` or `not_found`, with a line for each:
/// "FILE:line:column: …". `forbidden` when the token lacks a scope that a step needs.
[[nodiscard]] schema::Result<std::vector<SetupStep>> plan_setup(Client& client, const std::string& file,
                                                                std::vector<SetupItem> items);

/// Does it. Returns the warnings of the answer.
[[nodiscard]] schema::Result<std::vector<std::string>> carry_out(Client& client, const SetupStep& step);

}  // namespace driftgate::cli
