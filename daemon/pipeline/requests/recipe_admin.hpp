#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/pipeline/requests/request.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"
#include "daemon/pipeline/service.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// Where people keep the recipes of models (recipe.hpp); each change is an entry, in the same transaction.
/// Safe from any thread.
class RecipeAdmin {
 public:
  virtual ~RecipeAdmin() = default;
  /// {"model", "revision", "digest", "recipe", "set_by", "set_us"}; View::seq is the revision. `not_found`
  /// without a recipe.
  virtual schema::Result<View> get(const std::string& model) = 0;
  /// Sets the recipe of a model. `revision` is the one that was read; nothing: there is to be none yet.
  /// `conflict` when it is another now. The view has "warnings" too: what promotions by the recipe would lack
  /// now, and the schedules of the model whose fire times would be refused. The same recipe again changes
  /// nothing, whatever the revision.
  virtual schema::Result<View> set(const std::string& actor, const std::string& model, std::string_view json,
                                   std::optional<std::uint64_t> revision) = 0;
  /// Deletes it. Returns the warnings about schedules.
  virtual schema::Result<std::vector<std::string>> remove(const std::string& actor, const std::string& model,
                                                          std::uint64_t revision) = 0;
  /// The request with what it lacks from its model's recipe: complete_request of recipe.hpp.
  virtual schema::Result<PromotionRequest> complete(std::string_view json) = 0;
};

/// Checks a recipe that is set: see Pipeline::try_recipe.
using RecipeTrial = std::function<schema::Result<std::vector<std::string>>(const std::string& document)>;

/// Over the daemon's store, which must outlive it; `now_us` is the pipeline's clock. Without a trial recipes
/// are only parsed, and requests of schedules only completed.
[[nodiscard]] std::unique_ptr<RecipeAdmin> stored_recipes(store::Store& store,
                                                          std::function<std::int64_t()> now_us,
                                                          RecipeTrial trial = {},
                                                          ScheduleTrial schedule_trial = {});

}  // namespace driftgate::pipeline
