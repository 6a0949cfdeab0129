#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// What a model's promotions are asked for with unless the request says otherwise.
struct RecipeRow {
  std::string model{};
  std::optional<std::string> document{};  ///< canonical JSON; nothing: the recipe was deleted
  std::string digest{};                   ///< "sha256:…" of the last document
  std::uint64_t revision = 0;             ///< grows with every change, also over a deletion: the ETag
  std::string set_by{};                   ///< who changed it last
  std::int64_t set_us = 0;
  std::int64_t evidence_seq = -1;  ///< of the entry that recorded its last change
  bool operator==(const RecipeRow&) const = default;
};

/// Nothing for a model that never had a recipe; a row without a document for one whose recipe was deleted.
Result<std::optional<RecipeRow>> find_recipe(Reader& reader, std::string_view model);
/// Writes the row, whose revision is one more than that of the row before, or 1. `conflict` when it was
/// changed meanwhile.
Result<void> put_recipe(Tx& tx, const RecipeRow& row);
/// Those that were not deleted, by model, after `after`.
Result<std::vector<RecipeRow>> list_recipes(Reader& reader, std::string_view after, std::int64_t limit);

}  // namespace driftgate::store
