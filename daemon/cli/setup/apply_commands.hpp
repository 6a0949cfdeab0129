#pragma once

#include <string>

#include "daemon/cli/service/client.hpp"

namespace CLI {
class App;
}

namespace driftgate::cli {

struct RecipeArgs {
  std::string model;
  std::string file;  ///< YAML or JSON
};
int recipe_show(const ConnectionArgs& connection, const std::string& model);
/// Replaces the recipe that there is when it is read, if any.
int recipe_set(const ConnectionArgs& connection, const RecipeArgs& args);
int recipe_delete(const ConnectionArgs& connection, const std::string& model);

/// Exit code of `apply --dry-run` where applying would change something.
inline constexpr int kExitDifferences = 1;

struct ApplyArgs {
  std::string file;
  bool dry_run = false;
};
/// Brings the daemon to what a setup file says (docs/recipes.md). Everything is compared and checked before
/// the first change; it stops at the first one that fails, and says what was done and what was not.
int apply(const ConnectionArgs& connection, const ApplyArgs& args);

}  // namespace driftgate::cli
