#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::cli {

/// A token that `driftgate dev` makes: its holder's name, and what it allows.
struct RoleToken {
  std::string_view name;
  std::vector<std::string_view> scopes;
};
[[nodiscard]] std::span<const RoleToken> role_tokens();

/// NAME.token of a role in a folder of tokens.
[[nodiscard]] std::filesystem::path role_token_file(const std::filesystem::path& tokens,
                                                    std::string_view name);

/// Makes the tokens that are not in the folder yet, or that the daemon does not take any more, with an
/// admin's. The folder has mode 0700, its files 0600. `io`, and errors of the daemon.
[[nodiscard]] schema::Result<void> make_role_tokens(const std::string& url,
                                                    const std::filesystem::path& admin_token,
                                                    const std::filesystem::path& tokens);

}  // namespace driftgate::cli
