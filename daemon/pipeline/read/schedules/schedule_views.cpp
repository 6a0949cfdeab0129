#include "daemon/pipeline/read/schedules/schedule_views.hpp"

#include <nlohmann/json.hpp>

#include "daemon/pipeline/read/promotion_facts.hpp"
#include "daemon/pipeline/read/standing.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/registry/models.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;

constexpr std::int64_t kShownFires = 20;

template <typename T>
json maybe(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json standing_json(const PromotionFacts& facts) {
  const auto standing = standing_of(facts);
  json needs = json::array();
  for (const auto& need : standing.needs)
    needs.push_back({{"action", need.action}, {"scope", need.scope}, {"text", need.text}});
  return {{"state", store::to_string(facts.row.state)},
          {"stage", facts.row.stage},
          {"traffic", store::to_string(facts.row.traffic)},
          {"created_us", facts.row.created_us},
          {"ended_us", maybe(facts.row.ended_us)},
          {"why", standing.why},
          {"needs", std::move(needs)}};
}

}  // namespace

schema::Result<Standings> standings_of(store::Reader& reader,
                                       const std::vector<store::ScheduleFireRow>& fires,
                                       std::int64_t now_us) {
  Standings standings;
  std::map<std::string, std::optional<store::ModelRow>> models;
  std::vector<store::PromotionRow> open;
  for (const auto& fire : fires) {
    if (!fire.promotion) continue;
    auto row = TRY(store::find_promotion(reader, *fire.promotion));
    if (!row) continue;
    if (!store::is_terminal(row->state)) {
      open.push_back(std::move(*row));
      continue;
    }
    // What is said of one that has ended needs no more than its row and its model.
    if (!models.contains(row->model)) {
      auto model = TRY(store::find_model(reader, row->model));
      models.emplace(row->model, std::move(model));
    }
    const auto id = row->id;
    const auto& model = models.at(row->model);
    standings.insert_or_assign(id, standing_json({.row = std::move(*row), .model = model}));
  }
  if (open.empty()) return standings;
  const auto gathered = TRY(gather(reader, open, {.now_us = now_us}));
  for (const auto& facts : gathered) standings.insert_or_assign(facts.row.id, standing_json(facts));
  return standings;
}

json fire_json(const store::ScheduleFireRow& fire, const Standings& standings) {
  const auto standing = standings.find(fire.promotion.value_or(""));
  return {{"fire_us", fire.fire_us},
          {"outcome", fire.outcome},
          {"why", fire.why},
          {"reason", maybe(fire.reason)},
          {"revision", fire.revision},
          {"missed", fire.missed},
          {"promotion", maybe(fire.promotion)},
          {"evidence", fire.evidence_seq},
          {"standing", standing == standings.end() ? json(nullptr) : standing->second}};
}

schema::Result<json> schedule_json(store::Reader& reader, const store::ScheduleRow& row, std::int64_t now_us,
                                   bool with_standings) {
  const auto fires = TRY(store::list_schedule_fires(reader, row, kShownFires));
  Standings standings;
  if (with_standings) standings = TRY(standings_of(reader, fires, now_us));
  json list = json::array();
  for (const auto& fire : fires) list.push_back(fire_json(fire, standings));
  return json{{"name", row.name},
              {"cron", row.cron},
              {"timezone", row.zone},
              {"model", row.model},
              {"promotion", json::parse(row.request, nullptr, false)},
              {"misfire", row.misfire},
              {"grace_s", row.grace_s},
              {"if_running", row.if_running},
              {"paused", row.paused},
              {"owner", row.owner},
              {"created_us", row.created_us},
              {"updated_us", row.updated_us},
              {"revision", row.revision},
              {"next_us", row.paused ? json(nullptr) : maybe(row.next_us)},
              {"fires", std::move(list)}};
}

}  // namespace driftgate::pipeline
