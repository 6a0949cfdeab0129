#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cli/service/client.hpp"

namespace driftgate::cli {

// What the commands that talk to the daemon have in common.

/// Connects and runs `command`, which returns the exit code; reports an error of either.
int with_daemon(const ConnectionArgs& connection, const std::function<schema::Result<int>(Client&)>& command);

/// Makes a text of an answer; a newline is added where it ends without one.
using TextOf = std::function<std::string(const nlohmann::json& answer)>;

/// Prints an answer of the daemon as it is with --json, else the text that is made of it. Returns kExitOk.
schema::Result<int> print_answer(const ConnectionArgs& connection, const schema::Result<std::string>& answer,
                                 const TextOf& text);

/// Sends one request and prints its answer.
int ask(const ConnectionArgs& connection, const std::function<schema::Result<std::string>(Client&)>& request,
        const TextOf& text);

/// The members `items` of a page as a table; `none` when there are no items.
[[nodiscard]] std::string items_table(
    const nlohmann::json& page, const std::vector<std::string>& header,
    const std::function<std::vector<std::string>(const nlohmann::json&)>& row, const std::string& none);

/// Promotions are named "pr-…"; everything else is a model's name.
[[nodiscard]] bool is_promotion_id(std::string_view subject);
/// The id itself, or of the model with that name the promotion that has it now (as `status` shows it; others
/// may be queued behind it), else its newest one. `not_found` when it has none.
[[nodiscard]] schema::Result<std::string> find_promotion(Client& client, const std::string& subject);
/// The same, but of a model the promotion that waits for an approval first.
[[nodiscard]] schema::Result<std::string> find_awaiting_promotion(Client& client, const std::string& subject);
/// The path of a promotion.
[[nodiscard]] std::string promotion_path(const std::string& id);

}  // namespace driftgate::cli
