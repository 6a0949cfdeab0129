#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/pipeline/requests/request.hpp"
#include "daemon/store/registry/recipes.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// A model's recipe: what its promotions are asked for with unless the request says otherwise
/// (docs/recipes.md).
/// {"contract"?, "captures"?, "fallback_engine"?, "kernels"?: {KERNEL: the same
/// without "kernels"}}, where captures may lack members. Returns it as canonical JSON. `invalid_document`
/// with the JSON pointer in `where`; `limit_exceeded` beyond kMaxRecipeBytes.
[[nodiscard]] schema::Result<std::string> parse_recipe(std::string_view json);
/// An entry of the log holds a whole request beside its other members.
inline constexpr std::size_t kMaxRecipeBytes = 24 * 1024;

/// The parts that the recipe gives to a candidate of this kernel: its own members with those of `kernels`
/// over them as a JSON Merge Patch (RFC 7396), but for floors (complete_request). An unknown kernel, or "",
/// gives the recipe's own members.
[[nodiscard]] nlohmann::json recipe_parts(const nlohmann::json& recipe, const std::string& kernel);

/// A promotion as it is asked for: a PromotionRequest of which the model's recipe may supply everything but
/// "model", "engine" and "note".
struct AskedPromotion {
  std::string model, engine;
  std::string json;             ///< canonical JSON of the whole
  bool alone = false;           ///< "recipe": false: nothing is taken from the recipe
  std::optional<std::string> recipe_digest{};  ///< "recipe": {"digest"}: only with this one
};
[[nodiscard]] schema::Result<AskedPromotion> parse_asked_promotion(std::string_view json);

/// The request with what it lacks from the model's recipe as it is now: a JSON Merge Patch over the recipe's
/// parts, so that a member that is null is taken from nowhere. A floor is not taken for a capture that is
/// another one than the recipe's, or on another corpus: it is a run of another kernel, or of other rows.
/// `invalid_document` when something is missing
/// still; `conflict` when the recipe is not the one that was asked for.
[[nodiscard]] schema::Result<PromotionRequest> complete_request(store::Reader& reader,
                                                                const AskedPromotion& asked);
/// The same by this recipe, which need not be stored; by none where `row` is nothing.
[[nodiscard]] schema::Result<PromotionRequest> complete_by(store::Reader& reader, const AskedPromotion& asked,
                                                           const std::optional<store::RecipeRow>& row);
/// parse_asked_promotion and complete_request.
[[nodiscard]] schema::Result<PromotionRequest> complete_text(store::Store& store, std::string_view json);

}  // namespace driftgate::pipeline
