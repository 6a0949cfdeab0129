#include "daemon/pipeline/read/overview.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/evidence/log/log.hpp"
#include "daemon/pipeline/read/promotion_json.hpp"
#include "daemon/pipeline/read/standing.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;

std::vector<std::string> names_of(const std::vector<store::ModelRow>& models) {
  std::vector<std::string> names;
  names.reserve(models.size());
  for (const auto& model : models) names.push_back(model.name);
  return names;
}

std::vector<std::string> incumbents_of(const std::vector<store::ModelRow>& models) {
  std::set<std::string> ids;
  for (const auto& model : models) ids.insert(model.incumbent);
  return {ids.begin(), ids.end()};
}

/// Of each model the promotion that holds it, else the one that is queued: at the newest.
std::vector<store::PromotionRow> foremost(std::vector<store::PromotionRow> open) {
  std::map<std::string, store::PromotionRow> by_model;
  for (auto& row : open) {
    const auto known = by_model.find(row.model);
    const bool holds = known != by_model.end() && store::holds_model(known->second.state);
    if (!holds) by_model.insert_or_assign(row.model, row);
  }
  std::vector<store::PromotionRow> rows;
  for (auto& [model, row] : by_model) rows.push_back(std::move(row));
  return rows;
}

/// The first of the rows whose `member` is `value`; null without one.
template <typename Row, typename Member>
const Row* find_by(std::span<const Row> rows, Member member, const std::string& value) {
  const auto at = std::ranges::find(rows, value, member);
  return at == rows.end() ? nullptr : &*at;
}

json hold_json(const store::ModelRow& model) {
  if (!model.hold) return nullptr;
  return {{"reason", *model.hold},
          {"by", model.held_by},
          {"since_us", model.hold_us},
          {"promotion", model.hold_promotion}};
}

json guard_mark_json(const store::GuardMark* guard) {
  return guard == nullptr ? json(nullptr) : json{{"armed", guard->armed}, {"alarms", guard->alarms}};
}

bool routes_agree(const store::RouteRow* desired, const store::RouteRow* applied) {
  if (desired == nullptr || applied == nullptr) return false;
  return json::parse(desired->route, nullptr, false) == json::parse(applied->route, nullptr, false);
}

json ended_json(const store::PromotionRow* row, const store::ModelRow& model) {
  if (row == nullptr) return nullptr;
  const PromotionFacts facts{.row = *row, .model = model};
  return {{"id", row->id},
          {"state", store::to_string(row->state)},
          {"ended_us", row->ended_us ? json(*row->ended_us) : json(nullptr)},
          {"why", standing_of(facts).why}};
}

json fire_json(const store::ScheduleFireRow* fire) {
  if (fire == nullptr) return nullptr;
  return {{"fire_us", fire->fire_us},
          {"outcome", fire->outcome},
          {"why", fire->why},
          {"reason", fire->reason ? json(*fire->reason) : json(nullptr)},
          {"promotion", fire->promotion ? json(*fire->promotion) : json(nullptr)}};
}

json schedules_json(const OverviewRows& rows, const std::string& model) {
  json list = json::array();
  for (const auto& schedule : rows.schedules) {
    if (schedule.model != model) continue;
    const bool fires = schedule.next_us && !schedule.paused;
    const auto* const last = find_by(std::span(rows.fires), &store::ScheduleFireRow::schedule, schedule.name);
    list.push_back({{"name", schedule.name},
                    {"next_us", fires ? json(*schedule.next_us) : json(nullptr)},
                    {"paused", schedule.paused},
                    {"last", fire_json(last)}});
  }
  return list;
}

View model_item(const OverviewRows& rows, const store::ModelRow& model,
                std::span<const PromotionFacts> promotions) {
  const auto& name = model.name;
  const auto* const incumbent = find_by(std::span(rows.incumbents), &store::VersionRow::id, model.incumbent);
  const auto promotion =
      std::ranges::find(promotions, name, [](const PromotionFacts& facts) { return facts.row.model; });
  const auto* const desired = find_by(std::span(rows.desired), &store::RouteRow::model, name);
  const auto* const applied = find_by(std::span(rows.applied), &store::RouteRow::model, name);
  const json value{
      {"model", name},
      {"incumbent", version_json(incumbent ? std::optional(*incumbent) : std::nullopt)},
      {"hold", hold_json(model)},
      {"guard", guard_mark_json(find_by(std::span(rows.guards), &store::GuardMark::model, name))},
      {"route_agrees", routes_agree(desired, applied)},
      {"promotion", promotion == promotions.end() ? json(nullptr) : promotion_json(*promotion)},
      {"last", ended_json(find_by(std::span(rows.ended), &store::PromotionRow::model, name), model)},
      {"schedules", schedules_json(rows, name)}};
  return {name, model.evidence_seq < 0 ? 0 : static_cast<std::uint64_t>(model.evidence_seq), false,
          schema::canonical_json(value)};
}

}  // namespace

schema::Result<OverviewRows> read_overview(store::Reader& reader, const std::string& after,
                                           const std::optional<std::string>& text, std::size_t limit) {
  OverviewRows rows;
  rows.models = TRY(store::models_by_name(reader, after, text, static_cast<std::int64_t>(limit) + 1));
  if (rows.models.size() > limit) {
    rows.models.pop_back();
    rows.next = rows.models.back().name;
  }
  const auto names = names_of(rows.models);
  auto open = TRY(store::open_promotions_of(reader, names));
  rows.promotions = foremost(std::move(open));
  rows.ended = TRY(store::last_ended_of(reader, names));
  rows.incumbents = TRY(store::versions_of(reader, incumbents_of(rows.models)));
  rows.desired = TRY(store::desired_routes_of(reader, names));
  rows.applied = TRY(store::applied_routes_of(reader, names));
  rows.guards = TRY(store::guard_marks_of(reader, names));
  rows.schedules = TRY(store::schedules_of(reader, names));
  rows.fires = TRY(store::last_fires_of(reader, names));
  rows.counts = TRY(store::overview_counts(reader));
  rows.tree_size = TRY(evidence::tree_size(reader));
  return rows;
}

Overview overview_of(const OverviewRows& rows, std::span<const PromotionFacts> promotions) {
  Overview overview;
  for (const auto& model : rows.models) overview.page.items.push_back(model_item(rows, model, promotions));
  overview.page.next = rows.next;
  overview.counts = schema::canonical_json(json{{"models", rows.counts.models},
                                                {"open", rows.counts.open},
                                                {"need_people", rows.counts.need_people},
                                                {"holds", rows.counts.holds},
                                                {"alarms", rows.counts.alarms}});
  overview.tree_size = rows.tree_size;
  return overview;
}

}  // namespace driftgate::pipeline
