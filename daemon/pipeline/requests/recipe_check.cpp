#include "daemon/pipeline/requests/recipe_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/requests/checked_request.hpp"
#include "daemon/pipeline/requests/recipe.hpp"
#include "daemon/store/registry/kernels.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::Stage;

/// What a recipe gives to candidates of one kernel.
struct Variant {
  std::string kernel;  ///< "": its own members, for the kernel of their contract
  std::string at;      ///< pointer of its members
  RequestParts parts;
};

class RecipeCheck {
 public:
  RecipeCheck(store::Reader& reader, const Settings& settings) : reader_(reader), settings_(settings) {}

  schema::Result<void> look_at(const Variant& variant) {
    if (!variant.kernel.empty()) {
      const auto kernel = TRY(store::find_kernel(reader_, variant.kernel));
      if (!kernel) return unregistered("kernel", variant.kernel, variant.at);
    }
    if (!variant.parts.fallback_engine.empty()) {
      const auto engine = TRY(store::find_engine(reader_, variant.parts.fallback_engine));
      if (!engine)
        return unregistered("engine", variant.parts.fallback_engine, variant.at + "/fallback_engine");
    }
    TRY(sources_of(variant, variant.parts.numeric, "numeric"));
    TRY(sources_of(variant, variant.parts.slice, "slice"));
    return contract_of(variant);
  }

  std::vector<std::string> take() { return std::move(warnings_); }

 private:
  void warn(const Variant& variant, const std::string& what) {
    auto warning = variant.kernel.empty() ? what : fmt::format("For the kernel {}: {}", variant.kernel, what);
    if (std::ranges::find(warnings_, warning) == warnings_.end()) warnings_.push_back(std::move(warning));
  }

  /// A file may be written until a promotion needs it; nothing else may pass.
  schema::Result<void> source(const Variant& variant, const CaptureSource& source, const std::string& where) {
    if (source.uri.empty() && source.adapter.empty()) return {};
    const auto found = check_source(source, settings_, where);
    if (found) return {};
    const auto code = found.error().code;
    const bool may_come = code == ErrorCode::not_found || code == ErrorCode::io;
    if (!source.adapter.empty() || !may_come) return found;
    warn(variant, found.error().message);
    return {};
  }

  schema::Result<void> sources_of(const Variant& variant, const std::optional<StageCaptures>& captures,
                                  const std::string& name) {
    if (!captures) return {};
    const auto at = fmt::format("{}/captures/{}", variant.at, name);
    TRY(source(variant, captures->train, at + "/train"));
    TRY(source(variant, captures->inf, at + "/inf"));
    TRY(source(variant, {.uri = captures->corpus, .adapter = {}}, at + "/corpus"));
    for (const auto& [floor, which] :
         {std::pair{&captures->floor_train, "train"}, {&captures->floor_inf, "inf"}}) {
      if (!*floor) continue;
      const auto floor_at = fmt::format("{}/floor/{}", at, which);
      TRY(source(variant, (*floor)->second, floor_at));
      if ((*floor)->first) TRY(source(variant, *(*floor)->first, floor_at));
    }
    return {};
  }

  schema::Result<void> contract_of(const Variant& variant) {
    if (variant.parts.contract.empty()) {
      warn(variant, "it names no contract, so each request has to.");
      return {};
    }
    const auto row = about_contract(variant, named_contract(reader_, variant.parts.contract));
    if (!row) return std::unexpected(row.error());
    const auto contract = TRY(parse_contract_row(*row));
    if (!variant.kernel.empty() && contract->inf_kernel != variant.kernel)
      return schema::fail(
          ErrorCode::invalid_argument,
          fmt::format("contract {} is for the kernel {}, and candidates of the kernel {} would be held "
                      "to it: name the contract of that kernel",
                      row->name, contract->inf_kernel, variant.kernel),
          variant.at + "/contract");
    stage_of(variant, *contract, Stage::offline_numeric, "numeric", variant.parts.numeric);
    stage_of(variant, *contract, Stage::statistical_slice, "slice", variant.parts.slice);
    return {};
  }

  static schema::Result<store::ContractRow> about_contract(const Variant& variant,
                                                           schema::Result<store::ContractRow> found) {
    return about(variant.at + "/contract", std::move(found));
  }

  /// What a request that names nothing but its engine would lack.
  void stage_of(const Variant& variant, const schema::Contract& contract, Stage stage, const char* name,
                const std::optional<StageCaptures>& captures) {
    if (!captures) {
      if (demands(contract, stage))
        warn(variant, fmt::format("contract {} has clauses for {}, and the recipe has no captures.{}.",
                                  contract.name, schema::to_string(stage), name));
      return;
    }
    for (const auto& [source, member] :
         {std::pair{&captures->train, "train"}, std::pair{&captures->inf, "inf"}}) {
      if (source->uri.empty() && source->adapter.empty())
        warn(variant, fmt::format("captures.{} has no {}, so each request has to name it.", name, member));
    }
    const auto floors = find_missing_floor(*captures, contract, stage, "");
    if (!floors) warn(variant, floors.error().message);
  }

  store::Reader& reader_;
  const Settings& settings_;
  std::vector<std::string> warnings_;
};

schema::Result<std::vector<Variant>> variants_of(const json& recipe) {
  std::vector<Variant> variants;
  const auto kernels = recipe.value("kernels", json::object());
  if (kernels.empty() || recipe.contains("contract")) {
    auto parts = TRY(read_request_parts(recipe_parts(recipe, ""), "", {}));
    variants.push_back({"", "", std::move(parts)});
  }
  for (const auto& [kernel, own] : kernels.items()) {
    const auto at = "/kernels/" + schema::pointer_token(kernel);
    auto parts = TRY(read_request_parts(recipe_parts(recipe, kernel), at, {}));
    variants.push_back({kernel, at, std::move(parts)});
  }
  return variants;
}

}  // namespace

schema::Result<std::vector<std::string>> check_recipe(store::Store& store, const Settings& settings,
                                                      std::string_view document) {
  const auto recipe = TRY(schema::parse_json(document, {}, "the recipe"));
  const auto variants = TRY(variants_of(recipe));
  return store.read([&](store::Reader& reader) -> schema::Result<std::vector<std::string>> {
    RecipeCheck check(reader, settings);
    for (const auto& variant : variants) TRY(check.look_at(variant));
    return check.take();
  });
}

}  // namespace driftgate::pipeline
