#include "daemon/pipeline/read/series.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "daemon/base/json_members.hpp"
#include "daemon/pipeline/read/series_marks.hpp"
#include "daemon/pipeline/requests/checked_request.hpp"
#include "daemon/route/table/route.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::Stage;

constexpr std::size_t kLeastPoints = 64;

/// The run that was asked for, and when the one after it began.
struct Found {
  std::optional<store::StageRunRow> run;
  std::optional<std::int64_t> until_us;
};

bool is_live(const std::string& stage) {
  return stage == schema::to_string(Stage::canary) || stage == schema::to_string(Stage::shadow_runtime);
}

schema::Result<Found> find_run(store::Reader& reader, const SeriesRequest& request) {
  if (!request.stage.empty() && !is_live(request.stage)) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("stage '{}' has no series: canary and shadow-runtime have one", request.stage), "stage");
  }
  auto runs = TRY(store::list_stage_runs(reader, request.promotion));
  Found found;
  for (const auto& run : runs) {
    if (found.run && !found.until_us) found.until_us = run.started_us;
    const bool stage = is_live(run.key.stage) && (request.stage.empty() || run.key.stage == request.stage);
    if (!stage || (request.attempt && run.key.attempt != *request.attempt)) continue;
    found = {run, std::nullopt};
  }
  if (found.run || !request.attempt) return found;
  return schema::fail(ErrorCode::not_found,
                      fmt::format("promotion {} has no attempt {} at {}", request.promotion, *request.attempt,
                                  request.stage.empty() ? "a live stage" : request.stage));
}

/// At most `most` points, evenly chosen, with the newest.
void thin(std::vector<store::LivePointRow>& points, std::size_t most) {
  if (points.size() <= most) return;
  std::vector<store::LivePointRow> kept;
  for (std::size_t i = 1; i <= most; ++i) kept.push_back(std::move(points[i * points.size() / most - 1]));
  points = std::move(kept);
}

json counts_json(std::int64_t candidate, std::int64_t incumbent) {
  return {{"candidate", candidate}, {"incumbent", incumbent}};
}

/// A point as it is shown; `before` has the counts of the one before it.
json point_json(const store::LivePointRow& point, const store::LiveCounts& before, json body) {
  body.erase("clauses");
  body["time_us"] = point.time_us;
  body["requests"] = counts_json(point.counts.requests_candidate - before.requests_candidate,
                                 point.counts.requests_incumbent - before.requests_incumbent);
  body["failures"] = counts_json(point.counts.failures_candidate - before.failures_candidate,
                                 point.counts.failures_incumbent - before.failures_incumbent);
  for (const char* name : {"ttft_ms", "total_ms"}) {
    body["latency"][name] = body.value(name, json());
    body.erase(name);
  }
  return body;
}

/// One series for each clause, slice and kind of limit, whichever lists the points name.
class ClauseSeries {
 public:
  explicit ClauseSeries(const std::vector<store::LiveClausesRow>& lists) {
    for (const auto& row : lists) {
      auto list = json::parse(row.list, nullptr, false);
      if (!list.is_array()) continue;
      longest_ = std::max(longest_, list.size());
      lists_.emplace(row.key, std::move(list));
    }
  }

  [[nodiscard]] std::size_t longest() const { return longest_; }

  void add(const store::LivePointRow& point, const json& figures) {
    const auto list = lists_.find(point.clauses);
    if (list == lists_.end() || !figures.is_array()) return;
    for (std::size_t i = 0; i < std::min(figures.size(), list->second.size()); ++i)
      add_one(list->second[i], point.time_us, figures[i]);
  }

  [[nodiscard]] json take() {
    json out = json::array();
    for (auto& series : series_) out.push_back(std::move(series));
    return out;
  }

 private:
  void add_one(const json& about, std::int64_t time_us, const json& figures) {
    static constexpr std::array kNames{"n",     "clusters", "estimate", "lower",
                                       "upper", "e_value",  "e_proof",  "verdict"};
    if (!figures.is_array() || figures.size() != kNames.size()) return;
    const auto key = fmt::format("{}\n{}\n{}", base::text_at(about, "clause"), base::text_at(about, "slice"),
                                 base::text_at(about, "limit_kind"));
    const auto [place, is_new] = places_.emplace(key, series_.size());
    if (is_new) series_.push_back({{"points", json::array()}});
    json& series = series_[place->second];
    series.update(about);
    json point{{"time_us", time_us}};
    for (std::size_t i = 0; i < kNames.size(); ++i) point[kNames[i]] = figures[i];
    series["points"].push_back(std::move(point));
  }

  std::map<std::string, json> lists_;
  std::map<std::string, std::size_t> places_;  ///< in series_
  std::vector<json> series_;
  std::size_t longest_ = 0;
};

/// The ramp as the contract plans it, the holdback kept back.
json planned_json(const schema::Contract& contract) {
  json list = json::array();
  if (!contract.canary) return list;
  const auto& plan = *contract.canary;
  const auto most = route::kFullShareBp - std::min(plan.holdback_bp, route::kFullShareBp);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const auto& step = plan.steps[i];
    list.push_back({{"step", i},
                    {"share_bp", std::min(step.share_bp, most)},
                    {"approval", step.approval},
                    {"min_duration_ms", plan.soak_ms},
                    {"bake", false}});
  }
  if (plan.steps.empty()) return list;
  list.push_back({{"step", plan.steps.size()},
                  {"share_bp", std::min(plan.steps.back().share_bp, most)},
                  {"approval", false},
                  {"min_duration_ms", plan.bake_ms},
                  {"bake", true}});
  return list;
}

schema::Result<json> planned_of(store::Reader& reader, const std::string& digest) {
  const auto row = TRY(store::find_contract(reader, digest));
  if (!row) return json::array();
  const auto contract = TRY(parse_contract_row(*row));
  return planned_json(*contract);
}

/// Leaves out what was not asked for; the counts of the point before the first one that is left.
store::LiveCounts shorten(std::vector<store::LivePointRow>& points, const SeriesRequest& request,
                          std::size_t longest) {
  if (!request.last) {
    const auto room = kMaxClauseFigures / std::max<std::size_t>(longest, 1);
    thin(points, std::min(static_cast<std::size_t>(request.points), std::max(room, kLeastPoints)));
    return {};
  }
  const auto kept = std::min(points.size(), static_cast<std::size_t>(*request.last));
  const auto first = points.end() - static_cast<std::ptrdiff_t>(kept);
  const auto before = first == points.begin() ? store::LiveCounts{} : std::prev(first)->counts;
  points.erase(points.begin(), first);
  return before;
}

/// Points and clauses of a run.
schema::Result<void> put_series(store::Reader& reader, const store::StageKey& run,
                                const SeriesRequest& request, json& value) {
  auto stored = TRY(store::find_live_series(reader, run, request.last.value_or(store::kMaxLivePoints) + 1));
  ClauseSeries clauses(stored.clauses);
  auto before = shorten(stored.points, request, clauses.longest());
  json points = json::array();
  for (const auto& point : stored.points) {
    auto body = json::parse(point.body, nullptr, false);
    if (!body.is_object()) continue;
    clauses.add(point, body.value("clauses", json()));
    points.push_back(point_json(point, before, std::move(body)));
    before = point.counts;
  }
  value["stride"] = stored.stride;
  value["points"] = std::move(points);
  value["clauses"] = clauses.take();
  return {};
}

schema::Result<void> check_size(const std::optional<std::int64_t>& size, const char* name) {
  if (!size || (*size >= 1 && *size <= store::kMaxLivePoints + 1)) return {};
  return schema::fail(ErrorCode::invalid_argument,
                      fmt::format("{} must be 1 to {}", name, store::kMaxLivePoints + 1), name);
}

}  // namespace

schema::Result<View> series_view(store::Reader& reader, const SeriesRequest& request) {
  TRY(check_size(request.points, "points"));
  TRY(check_size(request.last, "last"));
  const auto row = TRY(store::get_promotion(reader, request.promotion));
  const auto found = TRY(find_run(reader, request));
  json value{{"promotion", row.id}, {"stage", nullptr},        {"attempt", nullptr},
             {"stride", 1},         {"points", json::array()}, {"clauses", json::array()}};
  std::optional<std::int64_t> from_us;
  if (found.run) {
    from_us = found.run->started_us;
    value["stage"] = found.run->key.stage;
    value["attempt"] = found.run->key.attempt;
    TRY(put_series(reader, found.run->key, request, value));
  }
  auto marks = TRY(series_marks(reader, {.promotion = row.id,
                                         .from_us = from_us,
                                         .to_us = found.until_us,
                                         .most = request.last.value_or(kMaxMarks),
                                         .actors = request.actors}));
  auto planned = TRY(planned_of(reader, row.contract));
  value["marks"] = std::move(marks);
  value["planned"] = std::move(planned);
  return View{row.id, static_cast<std::uint64_t>(std::max<std::int64_t>(row.evidence_seq, 0)), false,
              schema::canonical_json(value)};
}

}  // namespace driftgate::pipeline
