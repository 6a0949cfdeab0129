#include "daemon/cli/command_parts.hpp"

namespace driftgate::cli {

void CommandLine::add_recipes_and_apply() {
  CLI::App& recipes =
      group("recipe", "What a model's promotions take for the parts that their requests do not name");
  const Required model{"model", recipe_.model, "Model"};
  client(recipes, "show", "Show a model's recipe", {model},
         [this] { return recipe_show(connection_, recipe_.model); });
  client(recipes, "set", "Set a model's recipe",
         {model, {"--file", recipe_.file, "The recipe, YAML or JSON; - is standard input"}},
         [this] { return recipe_set(connection_, recipe_); });
  client(recipes, "delete", "Delete a model's recipe", {model},
         [this] { return recipe_delete(connection_, recipe_.model); });

  CLI::App* apply_sub =
      client(app_, "apply", "Register and set everything that a file names; nothing else is touched",
             {{"-f,--file", apply_.file,
               "Kernels, contracts, engines, models, recipes and schedules, YAML; - is standard input"}},
             [this] { return apply(connection_, apply_); });
  apply_sub->add_flag(
      "--dry-run", apply_.dry_run,
      "Show what would be created or changed and change nothing; exit status 1 if anything would");
}

}  // namespace driftgate::cli
