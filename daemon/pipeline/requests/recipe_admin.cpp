#include "daemon/pipeline/requests/recipe_admin.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/evidence/log/log.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/requests/recipe.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/models.hpp"
#include "daemon/store/registry/recipes.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::EvidenceKind;

schema::Result<View> recipe_view(const store::RecipeRow& row, const std::vector<std::string>* warnings) {
  const auto recipe = TRY(schema::parse_json(row.document.value_or("{}"), {}, "the stored recipe"));
  json value{{"model", row.model}, {"revision", row.revision}, {"digest", row.digest},
             {"recipe", recipe},   {"set_by", row.set_by},     {"set_us", row.set_us}};
  if (warnings != nullptr) value["warnings"] = *warnings;
  return View{row.model, row.revision, false, schema::canonical_json(value)};
}

schema::Result<store::RecipeRow> get_recipe(store::Reader& reader, const std::string& model) {
  const auto row = TRY(store::find_recipe(reader, model));
  if (row && row->document) return *row;
  TRY(store::get_model(reader, model));
  return schema::fail(
      ErrorCode::not_found,
      fmt::format("model '{}' has no recipe: 'driftgate recipe set {} --file FILE' gives it one", model,
                  model));
}

constexpr std::int64_t kSchedulesAtOnce = 500;

schema::Result<std::vector<store::ScheduleRow>> schedules_of(store::Reader& reader,
                                                             const std::string& model) {
  std::vector<store::ScheduleRow> found;
  for (std::string after;;) {
    const auto some = TRY(store::list_schedules(reader, after, kSchedulesAtOnce));
    if (some.empty()) return found;
    after = some.back().name;
    for (const auto& row : some)
      if (row.model == model) found.push_back(row);
  }
}

schema::Result<void> refuse_overtaken(const store::RecipeRow& row, std::optional<std::uint64_t> revision) {
  const bool is_there = row.document.has_value();
  if (is_there ? revision == row.revision : !revision) return {};
  const auto now = is_there ? fmt::format("at revision {}", row.revision) : std::string("none");
  return schema::fail(ErrorCode::conflict,
                      fmt::format("the recipe of {} is {} now: read it again", row.model, now));
}

class StoredRecipes final : public RecipeAdmin {
 public:
  StoredRecipes(store::Store& store, std::function<std::int64_t()> now_us, RecipeTrial trial,
                ScheduleTrial schedule_trial)
      : store_(store),
        now_us_(std::move(now_us)),
        trial_(std::move(trial)),
        schedule_trial_(std::move(schedule_trial)) {}

  schema::Result<View> get(const std::string& model) override {
    const auto row = TRY(look_up(store_, get_recipe, model));
    return recipe_view(row, nullptr);
  }

  schema::Result<View> set(const std::string& actor, const std::string& model, std::string_view text,
                           std::optional<std::uint64_t> revision) override {
    const auto document = TRY(parse_recipe(text));
    TRY(look_up(store_, store::get_model, model));
    auto warnings = TRY(tried(document));
    store::RecipeRow row{.model = model, .document = document, .digest = schema::document_digest(document)};
    row.set_by = actor;
    const auto refused = TRY(refused_schedules(model, row));
    warnings.insert(warnings.end(), refused.begin(), refused.end());
    bool created = false;
    TRY(store_.write("set recipe", [&](store::Tx& tx) -> schema::Result<void> {
      TRY(store::get_model(tx, model));
      const auto before = TRY(store::find_recipe(tx, model));
      row = before.value_or(store::RecipeRow{.model = model});
      created = !row.document;
      if (row.document == document) return {};
      TRY(refuse_overtaken(row, revision));
      row.document = document;
      row.digest = schema::document_digest(document);
      return put(tx, row, actor, EvidenceKind::recipe_set,
                 {{"change", created ? "created" : "replaced"},
                  {"recipe", entry_value(json::parse(document, nullptr, false))}});
    }));
    auto view = TRY(recipe_view(row, &warnings));
    view.created = created;
    return view;
  }

  schema::Result<std::vector<std::string>> remove(const std::string& actor, const std::string& model,
                                                  std::uint64_t revision) override {
    TRY(store_.write("delete recipe", [&](store::Tx& tx) -> schema::Result<void> {
      auto row = TRY(get_recipe(tx, model));
      TRY(refuse_overtaken(row, revision));
      row.document.reset();
      return put(tx, row, actor, EvidenceKind::recipe_deleted, {});
    }));
    // It is deleted, whether or not the schedules can be read.
    return refused_schedules(model, std::nullopt).value_or(std::vector<std::string>());
  }

  schema::Result<PromotionRequest> complete(std::string_view text) override {
    return complete_text(store_, text);
  }

 private:
  schema::Result<std::vector<std::string>> tried(const std::string& document) {
    if (!trial_) return std::vector<std::string>();
    return trial_(document);
  }

  /// The schedules of the model whose fire times would be refused by this recipe, or without one, with the
  /// reason.
  schema::Result<std::vector<std::string>> refused_schedules(const std::string& model,
                                                             const std::optional<store::RecipeRow>& recipe) {
    const auto schedules = TRY(look_up(store_, schedules_of, model));
    std::vector<std::string> warnings;
    for (const auto& row : schedules) {
      const auto fine = try_schedule(row, recipe);
      if (!fine)
        warnings.push_back(fmt::format("Each fire time of the schedule {} would be refused: {}", row.name,
                                       fine.error().message));
    }
    return warnings;
  }

  schema::Result<void> try_schedule(const store::ScheduleRow& row,
                                    const std::optional<store::RecipeRow>& recipe) {
    const auto asked = TRY(parse_asked_promotion(row.request));
    const auto request =
        TRY(store_.read([&](store::Reader& reader) { return complete_by(reader, asked, recipe); }));
    if (schedule_trial_) TRY(schedule_trial_(row.owner, request));
    return {};
  }

  /// The row as it is to be, but for its revision, with its entry.
  schema::Result<void> put(store::Tx& tx, store::RecipeRow& row, const std::string& actor, EvidenceKind kind,
                           schema::EntryValue::Object body) {
    ++row.revision;
    row.set_by = actor;
    row.set_us = now_us_();
    body.insert_or_assign("model", row.model);
    body.insert_or_assign("revision", row.revision);
    body.insert_or_assign("digest", row.digest);
    const auto stored = TRY(evidence::append(tx, {.time_us = row.set_us,
                                                  .kind = kind,
                                                  .actor = actor,
                                                  .subject = {.model = row.model},
                                                  .body = std::move(body)}));
    row.evidence_seq = static_cast<std::int64_t>(stored.seq);
    return store::put_recipe(tx, row);
  }

  store::Store& store_;
  std::function<std::int64_t()> now_us_;
  RecipeTrial trial_;
  ScheduleTrial schedule_trial_;
};

}  // namespace

std::unique_ptr<RecipeAdmin> stored_recipes(store::Store& store, std::function<std::int64_t()> now_us,
                                            RecipeTrial trial, ScheduleTrial schedule_trial) {
  return std::make_unique<StoredRecipes>(store, std::move(now_us), std::move(trial),
                                         std::move(schedule_trial));
}

}  // namespace driftgate::pipeline
