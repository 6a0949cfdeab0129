#include <fmt/core.h>

#include <optional>

#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/cli/setup/apply_commands.hpp"
#include "daemon/cli/setup/setup_file.hpp"
#include "daemon/cli/time_text.hpp"
#include "daemon/net/url.hpp"
#include "schema/document/yaml_text.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::Result;

std::string recipe_path(const std::string& model) {
  return "/v1/models/" + net::percent_encode(model) + "/recipe";
}

/// As a file that `recipe set` reads, behind lines of comment.
std::string recipe_text_of(const json& recipe) {
  return fmt::format("# recipe of {}, revision {}, set by {} at {} UTC\n# {}\n{}", text_of(recipe, "model"),
                     text_of(recipe, "revision"), text_of(recipe, "set_by"),
                     format_time(base::integer_at(recipe, "set_us")), text_of(recipe, "digest"),
                     schema::yaml_text(member_of(recipe, "recipe")));
}

/// The revision of a recipe that there is.
Result<std::optional<std::int64_t>> revision_of(Client& client, const std::string& model) {
  const auto answer = client.get(recipe_path(model));
  if (!answer && answer.error().code == ErrorCode::not_found) return std::optional<std::int64_t>();
  const auto recipe = TRY(parse_answer(answer));
  return std::optional(base::integer_at(recipe, "revision"));
}

}  // namespace

int recipe_show(const ConnectionArgs& connection, const std::string& model) {
  return ask(
      connection, [&](Client& client) { return client.get(recipe_path(model)); }, recipe_text_of);
}

int recipe_set(const ConnectionArgs& connection, const RecipeArgs& args) {
  const auto recipe = read_recipe_file(args.file);
  if (!recipe) return report(recipe.error());
  return with_daemon(connection, [&](Client& client) -> Result<int> {
    const auto revision = TRY(revision_of(client, args.model));
    const auto answer = client.change("PUT", recipe_path(args.model), revision, recipe->dump());
    const auto code = TRY(print_answer(connection, answer, [](const json& made) {
      return fmt::format("the recipe of {} has revision {} now ({})", text_of(made, "model"),
                         text_of(made, "revision"), text_of(made, "digest"));
    }));
    const auto made = TRY(parse_answer(answer));
    for (const json& warning : member_of(made, "warnings"))
      fmt::print(stderr, "driftgate: warning: {}\n", printable(plain_text(warning)));
    return code;
  });
}

int recipe_delete(const ConnectionArgs& connection, const std::string& model) {
  return with_daemon(connection, [&](Client& client) -> Result<int> {
    const auto recipe = TRY(parse_answer(client.get(recipe_path(model))));
    const auto answer =
        TRY(client.change("DELETE", recipe_path(model), base::integer_at(recipe, "revision")));
    const auto told = json::parse(answer, nullptr, false);
    for (const json& warning : member_of(told, "warnings"))
      fmt::print(stderr, "driftgate: warning: {}\n", printable(plain_text(warning)));
    print_line(connection.json ? json{{"deleted", model}}.dump()
                               : fmt::format("the recipe of {} is deleted", model));
    return kExitOk;
  });
}

}  // namespace driftgate::cli
