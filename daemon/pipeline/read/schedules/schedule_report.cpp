#include "daemon/pipeline/read/schedules/schedule_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "daemon/base/json_members.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/pipeline/read/schedules/schedule_views.hpp"
#include "daemon/pipeline/read/standing.hpp"
#include "daemon/schedule/fire_times.hpp"
#include "daemon/store/registry/schedules.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::EvidenceKind;

constexpr std::int64_t kSecond = 1'000'000;

/// What a schedule was from a time on, as an entry says it.
struct Definition {
  std::int64_t from_us = 0;
  std::string cron{}, zone{}, model{};
  std::int64_t revision = 0;
  bool fires = false;  ///< neither paused nor deleted
};
using Histories = std::map<std::string, std::vector<Definition>>;

Definition definition_of(const json& entry) {
  const json body = entry.value("body", json::object());
  const bool deleted = base::text_at(entry, "kind") == "schedule_deleted";
  return {.from_us = base::integer_at(entry, "time_us"),
          .cron = base::text_at(body, "cron"),
          .zone = base::text_at(body, "timezone"),
          .model = base::text_at(entry.value("subject", json::object()), "model"),
          .revision = base::integer_at(body, "revision"),
          .fires = !deleted && !body.value("paused", false)};
}

/// What each schedule was in the range: its last definition before it, and those in it.
schema::Result<Histories> histories(store::Reader& reader, const ReportRange& range) {
  evidence::EntryFilter filter{.kinds = {EvidenceKind::schedule_set, EvidenceKind::schedule_deleted},
                               .to_us = range.until_us};
  Histories found;
  TRY(evidence::each_entry(reader, filter, [&](const evidence::StoredEntry& entry) -> schema::Result<bool> {
    const auto value = json::parse(entry.bytes, nullptr, false);
    if (!value.is_object()) return true;
    auto& history = found[base::text_at(value.value("body", json::object()), "schedule")];
    auto definition = definition_of(value);
    if (definition.from_us <= range.since_us) history.clear();
    history.push_back(std::move(definition));
    return true;
  }));
  return found;
}

/// A fire time that the expressions ask for, or that is recorded.
struct Reported {
  std::int64_t fire_us = 0;
  std::string schedule{}, model{}, zone{};
  std::int64_t revision = 0;
  const store::ScheduleFireRow* row = nullptr;      ///< that records it
  const store::ScheduleFireRow* covered = nullptr;  ///< a later one, with which it was missed
  /// Why the fire times of the schedule from this time on are not known.
  std::optional<std::string> unreadable{};
};

json no_totals() {
  return {{"fired", 0},
          {"skipped", 0},
          {"pending", 0},
          {"unrecorded", 0},
          {"need_people", 0},
          {"skipped_by", json::object()},
          {"promotions", json::object()}};
}

void count(json& totals, const json& item) {
  const auto add = [](json& of, const std::string& name) { of[name] = base::integer_at(of, name) + 1; };
  add(totals, "times");
  add(totals, base::text_at(item, "outcome"));
  if (item["outcome"] == "skipped") add(totals["skipped_by"], base::text_at(item, "why"));
  if (item["standing"].is_object()) add(totals["promotions"], base::text_at(item["standing"], "state"));
  if (!item["needs"].empty()) add(totals, "need_people");
}

/// In the zone, or in UTC where the zone is not known any more.
std::string local_text(const std::string& name, std::int64_t time_s) {
  const auto zone = schedule::Zone::find(name);
  return zone ? zone->format(time_s) : utc_text(time_s * kSecond);
}

class Report {
 public:
  Report(store::Reader& reader, const ReportRange& range, std::int64_t now_us)
      : reader_(reader), range_(range), now_us_(now_us) {}

  /// The report, and with `settled_since_us` what came since then of earlier fire times, as "earlier".
  schema::Result<json> whole(std::optional<std::int64_t> settled_since_us = {}) {
    const auto known = TRY(histories(reader_, range_));
    TRY(read_fires(known));
    for (const auto& fire : fires_) rows_.emplace(std::pair(fire.schedule, fire.fire_us), &fire);
    for (const auto& [name, history] : known) expect(name, history);
    add_unexpected(known);
    if (items_.size() > kMaxReported || fires_.size() > kMaxReported) {
      return schema::fail(
          ErrorCode::limit_exceeded,
          fmt::format("there are more than {} fire times: ask for a shorter time or one model",
                      kMaxReported));
    }
    std::ranges::sort(items_, {},
                      [](const Reported& item) { return std::pair(item.fire_us, item.schedule); });
    const auto told = TRY(told_of(items_, fires_));
    json report{{"since_us", range_.since_us},
                {"until_us", range_.until_us},
                {"model", range_.model.empty() ? json(nullptr) : json(range_.model)},
                {"totals", told["totals"]},
                {"items", told["items"]}};
    if (settled_since_us) report["earlier"] = TRY(earlier(known, *settled_since_us));
    return report;
  }

 private:
  /// Adds the fire times of each definition from its time on until the next one's. A change at a second
  /// leaves the fire time of this very second to what was in force before it.
  void expect(const std::string& name, const std::vector<Definition>& history) {
    for (std::size_t i = 0; i < history.size() && items_.size() <= kMaxReported; ++i) {
      const auto& now = history[i];
      if (!now.fires || !is_asked_for(now.model)) continue;
      const auto cron = schedule::parse_cron(now.cron);
      const auto zone = schedule::Zone::find(now.zone);
      if (!cron || !zone) {
        items_.push_back({.fire_us = std::max(now.from_us, range_.since_us),
                          .schedule = name,
                          .model = now.model,
                          .zone = "UTC",
                          .revision = now.revision,
                          .unreadable = (cron ? zone.error() : cron.error()).describe()});
        continue;
      }
      const auto last_us = i + 1 < history.size() ? std::min(history[i + 1].from_us, range_.until_us - 1)
                                                  : std::min(range_.until_us - 1, now_us_);
      const auto after_s = std::max(now.from_us / kSecond, (range_.since_us + kSecond - 1) / kSecond - 1);
      for (const auto fire_s : schedule::fires_between(*cron, *zone, after_s, last_us / kSecond,
                                                       kMaxReported + 1 - items_.size())) {
        items_.push_back({.fire_us = fire_s * kSecond,
                          .schedule = name,
                          .model = now.model,
                          .zone = now.zone,
                          .revision = now.revision});
        auto& item = items_.back();
        const auto row = rows_.find(std::pair(name, item.fire_us));
        if (row != rows_.end()) item.row = row->second;
        if (item.row == nullptr) item.covered = cover_of(item);
      }
    }
  }

  /// The recorded fires, one more than may be at most; for a model only those of schedules that promoted it.
  schema::Result<void> read_fires(const Histories& known) {
    const auto limit = static_cast<std::int64_t>(kMaxReported) + 1;
    if (range_.model.empty()) {
      fires_ = TRY(store::schedule_fires_between(reader_, range_.since_us, range_.until_us, limit));
      return {};
    }
    for (const auto& [name, history] : known) {
      const auto left = limit - static_cast<std::int64_t>(fires_.size());
      if (left == 0) break;
      if (name.empty() || std::ranges::none_of(history, [&](const Definition& definition) {
            return is_asked_for(definition.model);
          }))
        continue;
      auto fires = TRY(store::schedule_fires_between(reader_, range_.since_us, range_.until_us, left, name));
      fires_.insert(fires_.end(), std::make_move_iterator(fires.begin()),
                    std::make_move_iterator(fires.end()));
    }
    return {};
  }

  /// {"totals", "items"} of fire times, of which `fires` are recorded.
  schema::Result<json> told_of(const std::vector<Reported>& reported,
                               const std::vector<store::ScheduleFireRow>& fires) {
    standings_ = TRY(standings_of(reader_, fires, now_us_));
    auto totals = no_totals();
    totals["times"] = 0;
    json items = json::array();
    for (const auto& item : reported) {
      auto shown = TRY(item_json(item));
      count(totals, shown);
      items.push_back(std::move(shown));
    }
    return json{{"totals", std::move(totals)}, {"items", std::move(items)}};
  }

  /// Of fire times before the range: those decided since then, and those whose promotion ended since then or
  /// goes on.
  schema::Result<json> earlier(const Histories& known, std::int64_t settled_since_us) {
    const auto fires = TRY(store::fires_settled_since(reader_, range_.since_us, settled_since_us,
                                                      static_cast<std::int64_t>(kMaxReported)));
    std::vector<Reported> reported;
    for (const auto& fire : fires) {
      const auto history = known.find(fire.schedule);
      const auto first = history == known.end() ? Definition{} : history->second.front();
      reported.push_back({.fire_us = fire.fire_us,
                          .schedule = fire.schedule,
                          .model = first.model,
                          .zone = first.zone.empty() ? "UTC" : first.zone,
                          .revision = static_cast<std::int64_t>(fire.revision),
                          .row = &fire});
    }
    return told_of(reported, fires);
  }

  [[nodiscard]] bool is_asked_for(const std::string& model) const {
    return range_.model.empty() || range_.model == model;
  }

  [[nodiscard]] const store::ScheduleFireRow* cover_of(const Reported& item) const {
    const auto found = std::ranges::find_if(fires_, [&](const store::ScheduleFireRow& fire) {
      return fire.schedule == item.schedule && fire.missed_from_us && *fire.missed_from_us <= item.fire_us &&
             item.fire_us < fire.fire_us;
    });
    return found == fires_.end() ? nullptr : &*found;
  }

  /// What is recorded of times that no expression asks for: the zones' database may have changed since.
  void add_unexpected(const Histories& known) {
    std::set<std::pair<std::string, std::int64_t>> expected;
    for (const auto& item : items_) expected.emplace(item.schedule, item.fire_us);
    for (const auto& fire : fires_) {
      const bool inside = range_.since_us <= fire.fire_us && fire.fire_us < range_.until_us;
      const auto history = known.find(fire.schedule);
      if (!inside || (history != known.end() && !is_asked_for(history->second.front().model))) continue;
      if (history == known.end() || expected.contains({fire.schedule, fire.fire_us})) continue;
      const auto& first = history->second.front();
      items_.push_back({.fire_us = fire.fire_us,
                        .schedule = fire.schedule,
                        .model = first.model,
                        .zone = first.zone.empty() ? "UTC" : first.zone,
                        .revision = static_cast<std::int64_t>(fire.revision),
                        .row = &fire});
    }
  }

  schema::Result<json> item_json(const Reported& item) {
    json shown{{"fire_us", item.fire_us}, {"missed", 0},          {"revision", item.revision},
               {"reason", nullptr},       {"promotion", nullptr}, {"evidence", nullptr},
               {"standing", nullptr}};
    if (item.unreadable) {
      shown["outcome"] = "unrecorded";
      shown["why"] = "its fire times cannot be computed";
      shown["reason"] = *item.unreadable;
    } else if (item.row != nullptr) {
      shown = fire_json(*item.row, standings_);
    } else if (item.covered != nullptr) {
      shown["outcome"] = "skipped";
      shown["why"] = "misfire";
      shown["reason"] =
          fmt::format("it was missed, and so were others; the newest of them, of {}, was decided",
                      utc_text(item.covered->fire_us));
      shown["evidence"] = item.covered->evidence_seq;
    } else {
      const auto schedule = TRY(store::find_schedule(reader_, item.schedule));
      const bool waits =
          schedule && !schedule->paused && schedule->next_us && *schedule->next_us <= item.fire_us;
      shown["outcome"] = waits ? "pending" : "unrecorded";
      shown["why"] = waits ? "it is due and being decided" : "nothing is recorded of it";
    }
    shown["schedule"] = item.schedule;
    shown["model"] = item.model;
    shown["local"] = local_text(item.zone, item.fire_us / kSecond);
    shown["duration_ms"] = duration_ms(shown["standing"]);
    shown["needs"] = item.unreadable
                         ? need("change_schedule", "promoter", "Change the schedule, or delete it.")
                         : needs_of(shown);
    return shown;
  }

  /// From the request to the end, or until now.
  [[nodiscard]] json duration_ms(const json& standing) const {
    if (!standing.is_object()) return nullptr;
    const auto end_us = base::integer_at(standing, "ended_us", now_us_);
    return (end_us - base::integer_at(standing, "created_us")) / 1'000;
  }

  static json need(const char* action, const char* scope, const char* text) {
    return json::array({json{{"action", action}, {"scope", scope}, {"text", text}}});
  }

  static json needs_of(const json& item) {
    if (item["standing"].is_object()) return item["standing"]["needs"];
    const auto why = base::text_at(item, "why");
    if (why == "owner_revoked")
      return need("change_schedule", "promoter",
                  "Someone who may set schedules sets it again, or deletes it.");
    if (why == "refused")
      return need("change_schedule", "promoter", "Mend what the reason names, or change the schedule.");
    if (item["outcome"] == "unrecorded")
      return need("look_into", "operator",
                  "Nothing is recorded of this fire time: check the record (audit verify).");
    return json::array();
  }

  store::Reader& reader_;
  const ReportRange& range_;
  const std::int64_t now_us_;
  std::vector<store::ScheduleFireRow> fires_{};
  std::map<std::pair<std::string, std::int64_t>, const store::ScheduleFireRow*> rows_{};
  std::vector<Reported> items_{};
  Standings standings_{};
};

/// Whether people should look at it.
bool is_notable(const json& item) {
  const auto outcome = base::text_at(item, "outcome");
  const auto why = base::text_at(item, "why");
  if (outcome == "unrecorded" || !item["needs"].empty()) return true;
  if (outcome == "skipped") return why != "blackout" && why != "running";
  if (!item["standing"].is_object()) return false;
  const auto state = base::text_at(item["standing"], "state");
  return state == "rejected" || state == "errored" || state == "expired" || state == "aborted";
}

}  // namespace

schema::Result<json> schedule_report(store::Store& store, const ReportRange& range, std::int64_t now_us) {
  if (range.since_us < 0 || range.since_us >= range.until_us ||
      range.until_us - range.since_us > kMaxReportUs) {
    return schema::fail(ErrorCode::invalid_argument,
                        "a report begins before it ends, and covers at most 31 days", "/since_us");
  }
  return store.read([&](store::Reader& reader) { return Report(reader, range, now_us).whole(); });
}

json report_digest(const json& report, std::size_t limit) {
  const auto digest_of = [&](const json& told) {
    json items = json::array();
    std::size_t more = 0;
    for (const json& item : told["items"]) {
      if (!is_notable(item)) continue;
      if (items.size() < limit)
        items.push_back(item);
      else
        ++more;
    }
    return json{{"totals", told["totals"]}, {"items", std::move(items)}, {"more", more}};
  };
  auto digest = digest_of(report);
  digest["since_us"] = report["since_us"];
  digest["until_us"] = report["until_us"];
  if (report.contains("earlier")) digest["earlier"] = digest_of(report["earlier"]);
  return digest;
}

schema::Result<json> schedule_digest(store::Store& store, const DigestRange& wanted, std::int64_t now_us,
                                     std::size_t limit) {
  ReportRange range{wanted.since_us, wanted.until_us, ""};
  while (true) {
    const auto report = store.read(
        [&](store::Reader& reader) { return Report(reader, range, now_us).whole(wanted.settled_since_us); });
    if (report) {
      auto digest = report_digest(*report, limit);
      const bool whole = range.since_us == wanted.since_us;
      digest["left_out_since_us"] = whole ? json(nullptr) : json(wanted.since_us);
      return digest;
    }
    const auto half_us = (range.until_us - range.since_us) / 2;
    if (report.error().code != ErrorCode::limit_exceeded || half_us < kSecond)
      return std::unexpected(report.error());
    range.since_us = range.until_us - half_us;
  }
}

}  // namespace driftgate::pipeline
