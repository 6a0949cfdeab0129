#include "daemon/pipeline/read/views.hpp"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/read/guard_view.hpp"
#include "daemon/pipeline/read/json_views.hpp"
#include "daemon/pipeline/read/promotion_json.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/promotions/verdicts.hpp"
#include "daemon/store/registry/routes.hpp"
#include "daemon/store/registry/versions.hpp"
#include "daemon/store/sqlite/write_scope.hpp"
#include "schema/contract/contract.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ErrorCode;

View view(std::string id, std::int64_t seq, const json& value) {
  return {std::move(id), seq < 0 ? 0 : static_cast<std::uint64_t>(seq), false, schema::canonical_json(value)};
}

schema::Result<json> stored_version_json(store::Reader& reader, const std::string& id) {
  if (id.empty()) return json(nullptr);
  const auto version = TRY(store::find_version(reader, id));
  return version_json(version);
}

/// The sentences of the stage's verdicts that did not pass.
schema::Result<json> open_list(store::Reader& reader, const store::StageKey& key) {
  constexpr std::int64_t kListed = 20;
  const auto rows = TRY(store::list_not_passed(reader, key, kListed));
  json open = json::array();
  for (const auto& row : rows) {
    const auto detail = stored_json(row.detail);
    open.push_back({{"clause", row.clause},
                    {"slice", row.slice},
                    {"verdict", row.verdict},
                    {"evidence", row.evidence_seq},
                    {"severity", detail.is_object() ? detail.value("severity", "") : ""},
                    {"message", detail.is_object() ? detail.value("message", "") : ""}});
  }
  return open;
}

View shown_or_id(const std::string& id, const std::function<schema::Result<View>()>& make) {
  try {
    auto made = make();
    if (made) return std::move(*made);
  } catch (const std::exception&) {  // the same: it cannot be shown
  }
  return view(id, -1, {{"id", id}});
}

}  // namespace

View contract_view(const store::ContractRow& row) {
  return view(row.digest, row.evidence_seq,
              {{"digest", row.digest},
               {"name", row.name},
               {"registrant", row.registrant},
               {"registered_us", row.registered_us},
               {"document", stored_json(row.canonical)}});
}

View kernel_view(const store::KernelRow& row) {
  return view(row.name, row.evidence_seq,
              {{"name", row.name},
               {"digest", row.digest},
               {"registrant", row.registrant},
               {"registered_us", row.registered_us},
               {"document", stored_json(row.canonical)}});
}

View engine_view(const store::EngineRow& row, const store::EngineAccessRow& access,
                 const std::string& files_dir) {
  const auto or_null = [](const std::string& text) { return text.empty() ? json(nullptr) : json(text); };
  return view(row.name, row.evidence_seq,
              {{"name", row.name},
               {"url", row.base_url},
               {"kernel", row.kernel},
               {"checkpoint", row.checkpoint},
               {"checkpoint_uri", row.checkpoint_uri},
               {"abilities", stored_json(row.abilities)},
               {"max_requests_per_second",
                row.max_requests_per_second == 0 ? json(nullptr) : json(row.max_requests_per_second)},
               {"key_file", or_null(access.key_file)},
               {"key_header", or_null(access.key_header)},
               {"ca_file", or_null(access.ca_file)},
               {"ca_digest", or_null(access.ca_digest)},
               {"files_dir", files_dir},
               {"probed_us", row.probed_us},
               {"registered_us", row.registered_us}});
}

schema::Result<View> stored_engine_view(store::Reader& reader, const store::EngineRow& row,
                                        const std::string& files_dir) {
  const auto access = TRY(store::find_engine_access(reader, row.base_url));
  return engine_view(row, access.value_or(store::EngineAccessRow{}), files_dir);
}

schema::Result<View> named_engine_view(store::Reader& reader, const std::string& name,
                                       const std::string& files_dir) {
  const auto row = TRY(store::find_engine(reader, name));
  if (row) return stored_engine_view(reader, *row, files_dir);
  return schema::fail(schema::ErrorCode::not_found, fmt::format("there is no engine {}", name));
}

View block_view(const store::BlockRow& row) {
  json lifted = nullptr;
  if (row.lifted_us)
    lifted = {{"by", row.lifted_by}, {"reason", row.lift_reason}, {"since_us", *row.lifted_us}};
  return view(row.id, row.evidence_seq,
              {{"id", row.id},
               {"checkpoint", row.checkpoint},
               {"kernel", row.kernel},
               {"contract", row.contract},
               {"promotion", row.promotion},
               {"reason", row.reason},
               {"by", row.set_by},
               {"since_us", row.set_us},
               {"lifted", lifted}});
}

schema::Result<View> model_view(store::Reader& reader, const store::ModelRow& row) {
  auto incumbent = TRY(stored_version_json(reader, row.incumbent));
  auto desired = TRY(store::find_desired_route(reader, row.name));
  auto applied = TRY(store::find_applied_route(reader, row.name));
  auto newest = TRY(store::list_promotions(
      reader, {.model = row.name, .state = std::nullopt, .before = std::nullopt, .limit = 20}));
  json promotion = nullptr;
  for (const auto& item : newest) {
    if (store::holds_model(item.state)) promotion = item.id;
  }
  json hold = nullptr;
  if (row.hold)
    hold = {{"reason", *row.hold},
            {"by", row.held_by},
            {"since_us", row.hold_us},
            {"promotion", row.hold_promotion}};
  auto guard = TRY(guard_json(reader, row.name));
  const json wanted = desired ? stored_json(desired->route) : json(nullptr);
  const json held = applied ? stored_json(applied->route) : json(nullptr);
  json seen = nullptr;
  if (held.is_object()) {
    seen = {{"route", held}, {"candidate_bp", held.value("candidate_bp", 0)}, {"time_us", applied->time_us}};
  }
  return view(row.name, row.evidence_seq,
              {{"name", row.name},
               {"incumbent", incumbent},
               {"promotion", promotion},
               {"hold", hold},
               {"guard", std::move(guard)},
               {"epoch", row.epoch},
               {"revision", row.revision},
               {"created_us", row.created_us},
               {"updated_us", row.updated_us},
               {"route", {{"desired", wanted}, {"observed", seen}, {"agree", desired && wanted == held}}}});
}

schema::Result<View> named_model_view(store::Reader& reader, const std::string& name) {
  const auto row = TRY(store::get_model(reader, name));
  return model_view(reader, row);
}

schema::Result<View> view_of_facts(store::Reader& reader, const PromotionFacts& facts) {
  json value = promotion_json(facts);
  for (std::size_t i = 0; i < facts.runs.size(); ++i) {
    auto open = TRY(open_list(reader, facts.runs[i].row.key));
    value["stages"][i]["summary"]["open"] = std::move(open);
  }
  return view(facts.row.id, facts.row.evidence_seq, value);
}

schema::Result<View> promotion_view(store::Reader& reader, const store::PromotionRow& row,
                                    const Sources& sources) {
  const auto facts = TRY(gather(reader, {&row, 1}, sources));
  return view_of_facts(reader, facts.front());
}

schema::Result<void> note_made(store::Tx& tx, const std::string& id,
                               const std::function<schema::Result<View>()>& view) {
  if (!store::is_answer_wanted()) return {};
  const auto shown = shown_or_id(id, view);
  return store::note_made(tx, {.id = shown.id, .json = shown.json});
}

schema::Result<View> report_view(store::Reader& reader, const std::string& promotion,
                                 const std::string& stage) {
  auto row = TRY(store::get_promotion(reader, promotion));
  auto runs = TRY(store::list_stage_runs(reader, promotion));
  const store::StageRunRow* newest = nullptr;
  for (const auto& run : runs) {
    if (run.key.stage == stage && !run.report.empty()) newest = &run;
  }
  if (newest == nullptr) {
    return schema::fail(ErrorCode::not_found,
                        fmt::format("promotion {} has no report of stage {} yet", promotion, stage));
  }
  auto blob = TRY(store::find_blob(reader, newest->report));
  if (!blob)
    return schema::fail(ErrorCode::corrupt, fmt::format("the report {} is not stored", newest->report));
  return View{newest->key.text(), static_cast<std::uint64_t>(std::max<std::int64_t>(row.evidence_seq, 0)),
              false, blob->bytes};
}

}  // namespace driftgate::pipeline
