#include "daemon/pipeline/requests/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "daemon/store/registry/engines.hpp"
#include "daemon/store/registry/recipes.hpp"
#include "schema/json.hpp"
#include "schema/names.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr std::array<std::string_view, 1> kBesideParts{"kernels"};
constexpr std::array<std::string_view, 5> kBesideAsked{"model", "engine", "note", "recipe",
                                                       "accept_undecidable"};

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
  if (!wish.is_object() || wish.size() != 1 || digest == wish.end() || !digest->is_string())
    return schema::fail(
        ErrorCode::invalid_document,
        "'recipe' is false, so that nothing is taken from the model's recipe, or {\"digest\": "
        "…} and nothing else, so that nothing is taken from another one",
        "/recipe");
  const auto& text = digest->get_ref<const std::string&>();
  if (!schema::parse_digest(text))
    return schema::fail(ErrorCode::invalid_document,
                        "'digest' is that of the recipe: \"sha256:\" and 64 hexadecimal digits",
                        "/recipe/digest");
  asked.recipe_digest = text;
  return {};
}

/// One value that is never looked into: a text, a number, a list, or a source {"adapter": …}.
bool is_leaf(const json& value) {
  return !value.is_object() || value.empty() || value.contains("adapter");
}

/// The pointers of the leaves of `whole` that `asked` does not say.
std::vector<std::string> parts_taken(const json& whole, const json& asked) {
  struct Place {
    const json* whole;
    const json* asked;
    std::string at;
  };
  const json nothing = json::object();
  std::vector<std::string> parts;
  for (std::vector<Place> open{{&whole, &asked, ""}}; !open.empty();) {
    const Place place = std::move(open.back());
    open.pop_back();
    for (const auto& [key, value] : place.whole->items()) {
      auto pointer = place.at + "/" + schema::pointer_token(key);
      const auto said = place.asked->find(key);
      const bool is_said = said != place.asked->end();
      if (is_leaf(value)) {
        if (!is_said && !value.is_null()) parts.push_back(std::move(pointer));
      } else {
        open.push_back({&value, is_said && said->is_object() ? &*said : &nothing, std::move(pointer)});
      }
    }
  }
  std::ranges::sort(parts);
  return parts;
}

/// The value at a path of members, or null.
json value_at(const json& value, std::initializer_list<const char*> path) {
  const json* at = &value;
  for (const char* member : path) {
    const auto found = at->is_object() ? at->find(member) : at->end();
    if (!at->is_object() || found == at->end()) return {};
    at = &*found;
  }
  return *at;
}

/// Takes the floors from `below` that were measured for another capture, or on another corpus, than what
/// `above` says: they would be compared with runs of another kernel or of other rows.
void drop_floors(json& below, const json& above) {
  for (const char* stage : {"numeric", "slice"}) {
    const json floors = value_at(below, {"captures", stage, "floor"});
    if (!floors.is_object()) continue;
    const auto differs = [&](const char* member) {
      const json said = value_at(above, {"captures", stage, member});
      return !said.is_null() && said != value_at(below, {"captures", stage, member});
    };
    for (const char* which : {"train", "inf"})
      if (differs(which) || differs("corpus")) below["captures"][stage]["floor"].erase(which);
    if (below["captures"][stage]["floor"].empty()) below["captures"][stage].erase("floor");
  }
}

void lay_over(json& below, const json& above) {
  drop_floors(below, above);
  below.merge_patch(above);
}

/// It is said of one promotion by who asks for it: from a recipe, promotions would begin that nobody said it
/// of.
schema::Result<void> refuse_exceptions(const json& parts, const std::string& at) {
  if (!parts.is_object() || !parts.contains("accept_undecidable")) return {};
  return schema::fail(ErrorCode::invalid_document,
                      "'accept_undecidable' is an exception for one promotion, which its request names "
                      "(`driftgate promote --accept-undecidable`), and no part of a recipe",
                      at + "/accept_undecidable");
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
  TRY(refuse_exceptions(recipe, ""));
  TRY(read_request_parts(recipe, "", kBesideParts));
  const auto kernels = recipe.value("kernels", json());
  if (!kernels.is_null() && !kernels.is_object())
    return schema::fail(ErrorCode::invalid_document, "'kernels' has the names of kernels as members",
                        "/kernels");
  for (const auto& [name, parts] : kernels.items()) {
    const auto where = "/kernels/" + schema::pointer_token(name);
    TRY(schema::check_name(name, "a kernel's name", where));
    TRY(refuse_exceptions(parts, where));
    TRY(read_request_parts(parts, where, {}));
    // What the two give together may be at fault where neither is.
    TRY(read_request_parts(recipe_parts(recipe, name), where, {}));
  }
  if (recipe.empty())
    return schema::fail(ErrorCode::invalid_document,
                        "the recipe is empty: it has contract, captures, fallback_engine or kernels");
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
  if (const auto own = kernels.find(kernel); own != kernels.end()) lay_over(parts, *own);
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
  const auto row = TRY(store::find_recipe(reader, asked.model));
  return complete_by(reader, asked, row);
}

schema::Result<PromotionRequest> complete_by(store::Reader& reader, const AskedPromotion& asked,
                                             const std::optional<store::RecipeRow>& row) {
  auto said = TRY(schema::parse_json(asked.json, {}, "the promotion"));
  said.erase("recipe");
  const bool has_recipe = row && row->document;
  if (asked.recipe_digest && (!has_recipe || row->digest != *asked.recipe_digest))
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("the recipe of {} is {} now, not {}", asked.model,
                    has_recipe ? fmt::format("{} (revision {})", row->digest, row->revision) : "none",
                    *asked.recipe_digest),
        "/recipe/digest");
  json whole = json::object();
  if (has_recipe && !asked.alone) {
    const auto engine = TRY(store::find_engine(reader, asked.engine));
    const auto recipe = TRY(schema::parse_json(*row->document, {}, "the stored recipe"));
    whole = recipe_parts(recipe, engine ? engine->kernel : std::string());
  }
  lay_over(whole, said);
  TRY(refuse_without_contract(whole, asked, has_recipe));
  auto request = TRY(parse_promotion_request(whole.dump()));
  auto parts = parts_taken(whole, said);
  if (!parts.empty()) request.recipe = RecipeUse{row->revision, row->digest, std::move(parts), row->set_by};
  return request;
}

schema::Result<PromotionRequest> complete_text(store::Store& store, std::string_view text) {
  const auto asked = TRY(parse_asked_promotion(text));
  return store.read([&](store::Reader& reader) { return complete_request(reader, asked); });
}

}  // namespace driftgate::pipeline
