#include <nlohmann/json.hpp>

#include "daemon/api/handlers/changes.hpp"
#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/preconditions.hpp"
#include "daemon/api/route_builder.hpp"
#include "schema/json.hpp"

namespace driftgate::api {
namespace {

using schema::ErrorCode;

ReadNow recipe_of(Context& context, const Call& call) {
  return [&context, &call] { return context.recipes->get(call.path[0]); };
}

Reply get_recipe(Context& context, const Call& call) {
  const auto view = TRY(recipe_of(context, call)());
  return with_etag(json_response(200, view.json), view);
}

/// The first recipe of a model: nothing was read that could have changed since, but there must still be none.
Reply create_recipe(Context& context, const Call& call) {
  const auto view = context.recipes->set(call.principal.name, call.path[0], call.request.body, std::nullopt);
  if (!view && view.error().code == ErrorCode::conflict) return missing_precondition();
  if (!view) return std::unexpected(view.error());
  return with_etag(json_response(view->created ? 201 : 200, view->json), *view);
}

/// A change of a recipe that If-Match names and that was deleted, before it or meanwhile, is 412.
Reply changed_unless_gone(const Call& call, Reply reply) {
  if (reply || reply.error().code != ErrorCode::not_found) return reply;
  const auto wanted = TRY(if_match_of(call.request));
  if (wanted) return failed_precondition(reply.error().describe());
  return reply;
}

Reply put_recipe(Context& context, const Call& call) {
  const auto wanted = TRY(if_match_of(call.request));
  const auto now = context.recipes->get(call.path[0]);
  if (!wanted && !now && now.error().code == ErrorCode::not_found) return create_recipe(context, call);
  auto reply = change_at(call, "recipe", recipe_of(context, call), [&](std::uint64_t revision) {
    return context.recipes->set(call.principal.name, call.path[0], call.request.body, revision);
  });
  return changed_unless_gone(call, std::move(reply));
}

Reply delete_recipe(Context& context, const Call& call) {
  std::vector<std::string> warnings;
  const auto remove = [&](std::uint64_t revision) -> schema::Result<pipeline::View> {
    warnings = TRY(context.recipes->remove(call.principal.name, call.path[0], revision));
    return pipeline::View{};
  };
  auto reply = change_at(call, "recipe", recipe_of(context, call), remove);
  auto response = TRY(changed_unless_gone(call, std::move(reply)));
  if (response.status != 200) return response;
  if (warnings.empty()) return no_content();
  return json_response(200, schema::canonical_json(nlohmann::json{{"warnings", warnings}}));
}

}  // namespace

void add_recipe_routes(std::vector<Route>& list) {
  RouteGroup recipes(list, "recipes");
  recipes
      .get("/v1/models/{name}/recipe", "getRecipe",
           "What promotions of the model take for the parts that their requests do not name", Scope::viewer,
           get_recipe)
      .answer(200, "Recipe", "the recipe; a change must name its ETag");
  recipes
      .add("PUT", "/v1/models/{name}/recipe", "setRecipe",
           "Set it; needs If-Match unless the model has none. Promotions that were asked for keep what they "
           "took",
           Scope::promoter, put_recipe)
      .body("RecipeRequest")
      .answer(200, "Recipe", "the recipe as it is now")
      .answer(201, "Recipe", "the model's first");
  recipes
      .add("DELETE", "/v1/models/{name}/recipe", "deleteRecipe", "Delete it; needs If-Match", Scope::promoter,
           delete_recipe)
      .answer(204, "", "deleted")
      .answer(200, "RecipeDeletion", "deleted, and schedules of the model lack something now");
}

}  // namespace driftgate::api
