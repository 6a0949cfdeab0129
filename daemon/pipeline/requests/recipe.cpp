#include "daemon/pipeline/requests/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "daemon/store/registry/engines.hpp"
#include "daemon/store/registry/recipes.hpp"
#include "schema/json.hpp"
#include "schema/names.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr std::array<std::string_view, 1> kBesideParts{"kernels"};
constexpr std::array<std::string_view, 4> kBesideAsked{"model", "engine", "note", "recipe"};

/// A member that must be a text which is not empty.
schema::Result<std::string> text_member(const json& value, const char* key) {
  const auto found = value.find(key);
  const auto where = fmt::format("/{}", key);
  if (found == value.end() || found->is_null())
    return schema::fail(ErrorCode::invalid_document, fmt::format("'{}' is missing", key), where);
  if (!found->is_string() || found->get_ref<const std::string&>().empty())
    return schema::fail(ErrorCode::invalid_document, fmt::format("'{}' must be a text", key), where);
  return found->get<std::string>();
}

/// What "recipe" of a request says, which is no part of the request that is completed.
schema::Result<void> take_wish(json& value, AskedPromotion& asked) {
  const auto wish = value.value("recipe", json());
  value.erase("recipe");
  if (wish.is_null()) return {};
  if (wish == json(false)) {
    asked.alone = true;
    return {};
  }
  const auto digest = wish.is_object() ? wish.find("digest") : wish.end();
  if (!wish.is_object() || digest == wish.end() || !digest->is_string())
    return schema::fail(
        ErrorCode::invalid_document,
        "'recipe' is false, so that nothing is taken from the model's recipe, or {\"digest\": "
        "…}, so that nothing is taken from another one",
        "/recipe");
  asked.recipe_digest = digest->get<std::string>();
  return {};
}

/// The pointers of what `asked` does not say and `whole` has. A source {"adapter": …} is one part.
std::vector<std::string> parts_taken(const json& whole, const json& asked) {
  struct Place {
    const json* whole;
    const json* asked;
    std::string at;
  };
  std::vector<std::string> parts;
  for (std::vector<Place> open{{&whole, &asked, ""}}; !open.empty();) {
    const Place place = std::move(open.back());
    open.pop_back();
    for (const auto& [key, value] : place.whole->items()) {
      auto pointer = place.at + "/" + schema::pointer_token(key);
      const auto said = place.asked->find(key);
      if (said == place.asked->end()) {
        parts.push_back(std::move(pointer));
      } else if (value.is_object() && said->is_object() && !value.contains("adapter")) {
        open.push_back({&value, &*said, std::move(pointer)});
      }
    }
  }
  std::ranges::sort(parts);
  return parts;
}

schema::Result<void> refuse_without_contract(const json& whole, const AskedPromotion& asked,
                                             bool has_recipe) {
  if (whole.contains("contract")) return {};
  const auto why =
      asked.alone
          ? std::string("'contract' is missing, and nothing is to be taken from the recipe")
          : fmt::format("'contract' is missing: name it, or {} (`driftgate recipe set {} --file FILE`)",
                        has_recipe ? "add it to the model's recipe" : "give the model a recipe", asked.model);
  return schema::fail(ErrorCode::invalid_document, why, "/contract");
}

}  // namespace

schema::Result<std::string> parse_recipe(std::string_view text) {
  const auto recipe = TRY(schema::parse_json(text, {}, "the recipe"));
  if (recipe.is_object() && (recipe.contains("engine") || recipe.contains("model")))
    return schema::fail(ErrorCode::invalid_document,
                        "a recipe names neither its model, which the path does, nor an engine, which each "
                        "promotion does",
                        recipe.contains("engine") ? "/engine" : "/model");
  TRY(read_request_parts(recipe, "", kBesideParts));
  const auto kernels = recipe.value("kernels", json());
  if (!kernels.is_null() && !kernels.is_object())
    return schema::fail(ErrorCode::invalid_document, "'kernels' has the names of kernels as members",
                        "/kernels");
  for (const auto& [name, parts] : kernels.items()) {
    const auto where = "/kernels/" + schema::pointer_token(name);
    TRY(schema::check_name(name, "a kernel's name", where));
    TRY(read_request_parts(parts, where, {}));
    // What the two give together may be at fault where neither is.
    TRY(read_request_parts(recipe_parts(recipe, name), where, {}));
  }
  if (recipe.empty())
    return schema::fail(
        ErrorCode::invalid_document,
        "the recipe is empty: it has contract, captures, fallback_engine, accept_undecidable or "
        "kernels");
  auto canonical = schema::canonical_json(recipe);
  if (canonical.size() > kMaxRecipeBytes)
    return schema::fail(ErrorCode::limit_exceeded, fmt::format("the recipe has {} bytes; the limit is {}",
                                                               canonical.size(), kMaxRecipeBytes));
  return canonical;
}

json recipe_parts(const json& recipe, const std::string& kernel) {
  json parts = recipe;
  parts.erase("kernels");
  const auto kernels = recipe.value("kernels", json::object());
  if (const auto own = kernels.find(kernel); own != kernels.end()) parts.merge_patch(*own);
  return parts;
}

schema::Result<AskedPromotion> parse_asked_promotion(std::string_view text) {
  auto value = TRY(schema::parse_json(text, {}, "the promotion"));
  TRY(read_request_parts(value, "", kBesideAsked));
  AskedPromotion asked;
  asked.model = TRY(text_member(value, "model"));
  asked.engine = TRY(text_member(value, "engine"));
  asked.json = schema::canonical_json(value);
  TRY(take_wish(value, asked));
  return asked;
}

schema::Result<PromotionRequest> complete_request(store::Reader& reader, const AskedPromotion& asked) {
  auto said = TRY(schema::parse_json(asked.json, {}, "the promotion"));
  said.erase("recipe");
  const auto row = TRY(store::find_recipe(reader, asked.model));
  const bool has_recipe = row && row->document;
  if (!asked.recipe_digest.empty() && (!has_recipe || row->digest != asked.recipe_digest))
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("the recipe of {} is {} now, not {}", asked.model,
                    has_recipe ? fmt::format("{} (revision {})", row->digest, row->revision) : "none",
                    asked.recipe_digest),
        "/recipe/digest");
  json whole = json::object();
  if (has_recipe && !asked.alone) {
    const auto engine = TRY(store::find_engine(reader, asked.engine));
    const auto recipe = TRY(schema::parse_json(*row->document, {}, "the stored recipe"));
    whole = recipe_parts(recipe, engine ? engine->kernel : std::string());
  }
  whole.merge_patch(said);
  TRY(refuse_without_contract(whole, asked, has_recipe));
  auto request = TRY(parse_promotion_request(whole.dump()));
  auto parts = parts_taken(whole, said);
  if (!parts.empty()) request.recipe = RecipeUse{row->revision, row->digest, std::move(parts)};
  return request;
}

schema::Result<PromotionRequest> complete_text(store::Store& store, std::string_view text) {
  const auto asked = TRY(parse_asked_promotion(text));
  return store.read([&](store::Reader& reader) { return complete_request(reader, asked); });
}

}  // namespace driftgate::pipeline
