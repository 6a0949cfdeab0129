#include "daemon/store/registry/recipes.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

#define RECIPE_COLUMNS "model, document, digest, revision, set_by, set_us, evidence_seq"
constexpr Sql kFind{"find recipe", "SELECT " RECIPE_COLUMNS " FROM recipes WHERE model = ?1"};
constexpr Sql kPut{"put recipe",
                   "INSERT INTO recipes(" RECIPE_COLUMNS
                   ") SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 "
                   "WHERE ?4 = 1 + coalesce((SELECT revision FROM recipes WHERE model = ?1), 0) "
                   "ON CONFLICT(model) DO UPDATE SET document = ?2, digest = ?3, revision = ?4, set_by = ?5, "
                   "set_us = ?6, evidence_seq = ?7"};
constexpr Sql kList{"list recipes",
                    "SELECT " RECIPE_COLUMNS
                    " FROM recipes WHERE model > ?1 AND document IS NOT NULL ORDER BY model LIMIT ?2"};
#undef RECIPE_COLUMNS

}  // namespace

Result<std::optional<RecipeRow>> find_recipe(Reader& reader, std::string_view model) {
  return find_row<RecipeRow>(reader, kFind, {model});
}

Result<void> put_recipe(Tx& tx, const RecipeRow& r) {
  return must_change(
      tx.run(kPut, {r.model, r.document, r.digest, r.revision, r.set_by, r.set_us, r.evidence_seq}),
      ErrorCode::conflict, fmt::format("the recipe of {} was changed meanwhile: read it again", r.model));
}

Result<std::vector<RecipeRow>> list_recipes(Reader& reader, std::string_view after, std::int64_t limit) {
  return list_rows<RecipeRow>(reader, kList, {after, limit});
}

}  // namespace driftgate::store
