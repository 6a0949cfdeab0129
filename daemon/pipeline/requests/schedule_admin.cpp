#include "daemon/pipeline/requests/schedule_admin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/evidence/log/log.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/read/lists.hpp"
#include "daemon/pipeline/read/schedules/schedule_report.hpp"
#include "daemon/pipeline/read/schedules/schedule_views.hpp"
#include "daemon/pipeline/requests/fire_entry.hpp"
#include "daemon/pipeline/requests/recipe.hpp"
#include "daemon/schedule/fire_times.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "daemon/store/sqlite/write_scope.hpp"
#include "schema/json.hpp"
#include "schema/names.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr std::int64_t kSecond = 1'000'000;
/// Names that are words in paths of the API.
constexpr std::string_view kReport = "report";
constexpr std::int64_t kReportedUs = 86'400 * kSecond;  ///< of a report that names no time

View view_of(const store::ScheduleRow& row, const json& value) {
  return View{row.name, row.revision, false, schema::canonical_json(value)};
}

std::optional<std::int64_t> next_us(const schedule::Cron& cron, const schedule::Zone& zone,
                                    std::int64_t now_us) {
  const auto next = schedule::next_fire(cron, zone, now_us / kSecond);
  return next ? std::optional(*next * kSecond) : std::nullopt;
}

/// A request that was read whole: the row that it stands for, without its times.
struct ReadRequest {
  store::ScheduleRow row;
  schedule::Cron cron;
  schedule::Zone zone;
  AskedPromotion promotion;
};

schema::Result<ReadRequest> read_request(const ScheduleRequest& request, const std::string& actor) {
  const auto cron = TRY(about("/cron", schedule::parse_cron(request.cron)));
  const auto zone = TRY(about("/timezone", schedule::Zone::find(request.zone)));
  if (request.misfire != "skip" && request.misfire != "run_once")
    return schema::fail(ErrorCode::invalid_argument, "misfire is skip or run_once", "/misfire");
  if (request.if_running != "skip" && request.if_running != "queue")
    return schema::fail(ErrorCode::invalid_argument, "if_running is skip or queue", "/if_running");
  if (request.grace_s < 0 || request.grace_s > kMaxGraceSeconds)
    return schema::fail(ErrorCode::invalid_argument, fmt::format("grace_s is 0 to {}", kMaxGraceSeconds),
                        "/grace_s");
  const auto promotion = TRY(about("/promotion", parse_asked_promotion(request.request)));
  store::ScheduleRow row;
  row.name = request.name;
  row.cron = cron.text;
  row.zone = zone.name();
  row.model = promotion.model;
  row.request = promotion.json;
  row.misfire = request.misfire;
  row.grace_s = request.grace_s;
  row.if_running = request.if_running;
  row.owner = actor;
  return ReadRequest{std::move(row), cron, zone, promotion};
}

/// The entry of a change, about the model that the schedule promotes.
schema::Result<void> record(store::Tx& tx, schema::EvidenceKind kind, const std::string& actor,
                            const store::ScheduleRow& row, std::int64_t now_us,
                            schema::EntryValue::Object body) {
  body.insert_or_assign("schedule", row.name);
  body.insert_or_assign("revision", row.revision);
  TRY(evidence::append(tx, {.time_us = now_us,
                            .kind = kind,
                            .actor = actor,
                            .subject = {.model = row.model},
                            .body = std::move(body)}));
  return {};
}

schema::Result<void> record_set(store::Tx& tx, const std::string& actor, const store::ScheduleRow& row,
                                std::int64_t now_us, const char* change) {
  return record(tx, schema::EvidenceKind::schedule_set, actor, row, now_us,
                {{"change", change},
                 {"cron", row.cron},
                 {"timezone", row.zone},
                 {"request", entry_value(json::parse(row.request, nullptr, false))},
                 {"misfire", row.misfire},
                 {"grace_s", row.grace_s},
                 {"if_running", row.if_running},
                 {"paused", row.paused},
                 {"owner", row.owner}});
}

/// A change takes away the fire time that is due and was not decided yet: that is recorded.
schema::Result<void> skip_due(store::Tx& tx, const store::ScheduleRow& row, const std::string& actor,
                              std::int64_t now_us, const char* change) {
  if (row.paused || !row.next_us || *row.next_us > now_us) return {};
  const auto fire = TRY(due_fire(row, now_us));
  const auto entry = skip_entry(
      fire, "changed", fmt::format("{} {} the schedule before it was decided", actor, change), now_us);
  const auto stored = TRY(evidence::append(tx, entry));
  return store::insert_schedule_fire(tx, fire_row(fire, entry, stored.seq));
}

class StoredSchedules final : public ScheduleAdmin {
 public:
  StoredSchedules(store::Store& store, std::function<std::int64_t()> now_us, ScheduleTrial trial)
      : store_(store), now_us_(std::move(now_us)), trial_(std::move(trial)) {}

  schema::Result<View> create(const std::string& actor, const ScheduleRequest& request) override {
    TRY(schema::check_name(request.name, "a schedule's name", "/name"));
    if (request.name == kReport)
      return schema::fail(ErrorCode::invalid_argument, "'report' is a word of the API: choose another name",
                          "/name");
    auto wanted = TRY(read_request(request, actor));
    const auto warnings = TRY(tried(actor, wanted.promotion));
    auto& row = wanted.row;
    TRY(store_.write("create schedule", [&](store::Tx& tx) -> schema::Result<void> {
      auto all = TRY(store::list_schedules(tx, "", kMaxSchedules));
      if (all.size() >= kMaxSchedules)
        return schema::fail(ErrorCode::limit_exceeded,
                            fmt::format("there are {} schedules already", kMaxSchedules));
      row.created_us = row.updated_us = now_us_();
      row.next_us = next_us(wanted.cron, wanted.zone, row.created_us);
      row.revision = row.first_revision = TRY(store::first_revision_of(tx, row.name));
      TRY(store::insert_schedule(tx, row));
      TRY(record_set(tx, actor, row, row.created_us, "created"));
      if (!store::is_answer_wanted()) return {};
      const auto view = TRY(warned_view(tx, row, warnings));
      return store::note_made(tx, {.id = view.id, .json = view.json, .revision = view.seq});
    }));
    auto view = warned(request.name, warnings);
    if (view) view->created = true;
    return view;
  }

  schema::Result<View> replace(const std::string& actor, const ScheduleRequest& request,
                               std::uint64_t revision) override {
    const auto wanted = TRY(read_request(request, actor));
    const auto warnings = TRY(tried(actor, wanted.promotion));
    return change(
        actor, request.name, revision, "replaced",
        [&](store::ScheduleRow& stored, std::int64_t now_us) {
          const auto before = std::exchange(stored, wanted.row);
          stored.paused = before.paused;
          stored.created_us = before.created_us;
          stored.first_revision = before.first_revision;
          stored.next_us = next_us(wanted.cron, wanted.zone, now_us);
        },
        warnings);
  }

  schema::Result<View> set_paused(const std::string& actor, const std::string& name, bool paused,
                                  std::uint64_t revision) override {
    return change(actor, name, revision, paused ? "paused" : "resumed",
                  [&](store::ScheduleRow& stored, std::int64_t now_us) {
                    stored.paused = paused;
                    // What would have fired while it was paused is not missed.
                    const auto cron = schedule::parse_cron(stored.cron);
                    const auto zone = schedule::Zone::find(stored.zone);
                    if (cron && zone) stored.next_us = next_us(*cron, *zone, now_us);
                  });
  }

  schema::Result<void> remove(const std::string& actor, const std::string& name,
                              std::uint64_t revision) override {
    return store_.write("delete schedule", [&](store::Tx& tx) -> schema::Result<void> {
      auto row = TRY(store::get_schedule(tx, name));
      const auto now_us = now_us_();
      TRY(skip_due(tx, row, actor, now_us, "deleted"));
      TRY(store::delete_schedule(tx, name, revision));
      return record(tx, schema::EvidenceKind::schedule_deleted, actor, row, now_us, {});
    });
  }

  schema::Result<View> get(const std::string& name) override {
    return store_.read([&](store::Reader& reader) -> schema::Result<View> {
      const auto row = TRY(store::get_schedule(reader, name));
      const auto value = TRY(schedule_json(reader, row, now_us_(), true));
      return view_of(row, value);
    });
  }

  schema::Result<Page> list(const PageRequest& request) override {
    const auto limit = std::clamp<std::size_t>(request.limit, 1, kMaxPageItems);
    return view_page(
        store_, {request.after, limit}, store::list_schedules,
        [&](store::Reader& reader, const store::ScheduleRow& row) -> schema::Result<View> {
          const auto value = TRY(schedule_json(reader, row, now_us_(), false));
          return view_of(row, value);
        },
        &store::ScheduleRow::name);
  }

  schema::Result<View> report(std::optional<std::int64_t> since_us, std::optional<std::int64_t> until_us,
                              const std::string& model) override {
    const auto now_us = now_us_();
    const auto until = until_us.value_or(now_us);
    const auto found =
        TRY(schedule_report(store_, {since_us.value_or(until - kReportedUs), until, model}, now_us));
    return View{"", 0, false, schema::canonical_json(found)};
  }

  schema::Result<View> next(const std::string& name, std::size_t count) override {
    auto row = TRY(look_up(store_, store::get_schedule, name));
    auto cron = TRY(schedule::parse_cron(row.cron));
    auto zone = TRY(schedule::Zone::find(row.zone));
    json items = json::array();
    const auto wanted = std::clamp<std::size_t>(count, 1, kMaxNextFires);
    for (const auto fire : schedule::next_fires(cron, zone, now_us_() / kSecond, wanted))
      items.push_back({{"fire_us", fire * kSecond}, {"local", zone.format(fire)}});
    return View{name, row.revision, false, schema::canonical_json(json{{"items", std::move(items)}})};
  }

 private:
  /// Why the request, with what the recipe gives now, would not be accepted now; an error when it never can
  /// be.
  schema::Result<std::vector<std::string>> tried(const std::string& actor, const AskedPromotion& promotion) {
    if (!trial_) return std::vector<std::string>();
    const auto whole = TRY(about("/promotion", completed(promotion)));
    return about("/promotion", trial_(actor, whole));
  }

  schema::Result<PromotionRequest> completed(const AskedPromotion& promotion) {
    return store_.read([&](store::Reader& reader) { return complete_request(reader, promotion); });
  }

  schema::Result<View> warned_view(store::Reader& reader, const store::ScheduleRow& row,
                                   const std::vector<std::string>& warnings) {
    auto value = TRY(schedule_json(reader, row, now_us_(), true));
    value["warnings"] = warnings;
    return view_of(row, value);
  }

  schema::Result<View> warned(const std::string& name, const std::vector<std::string>& warnings) {
    return store_.read([&](store::Reader& reader) -> schema::Result<View> {
      const auto row = TRY(store::get_schedule(reader, name));
      return warned_view(reader, row, warnings);
    });
  }

  template <typename F>
  schema::Result<View> change(const std::string& actor, const std::string& name, std::uint64_t revision,
                              const char* what, F edit, const std::vector<std::string>& warnings = {}) {
    TRY(store_.write("change schedule", [&](store::Tx& tx) -> schema::Result<void> {
      auto row = TRY(store::get_schedule(tx, name));
      const auto now_us = now_us_();
      TRY(skip_due(tx, row, actor, now_us, what));
      edit(row, now_us);
      row.revision = revision;
      row.updated_us = now_us;
      TRY(store::update_schedule(tx, row));
      return record_set(tx, actor, row, row.updated_us, what);
    }));
    return warned(name, warnings);
  }

  store::Store& store_;
  std::function<std::int64_t()> now_us_;
  ScheduleTrial trial_;
};

}  // namespace

schema::Result<ScheduleRequest> parse_schedule_request(std::string_view text, const std::string& name) {
  const auto body = TRY(schema::parse_json(text, {}, "the schedule"));
  if (!body.is_object()) return schema::fail(ErrorCode::invalid_document, "a schedule is a JSON object");
  ScheduleRequest request;
  request.name = name;
  const std::pair<const char*, std::string*> texts[] = {{"name", &request.name},
                                                        {"cron", &request.cron},
                                                        {"timezone", &request.zone},
                                                        {"misfire", &request.misfire},
                                                        {"if_running", &request.if_running}};
  for (const auto& [key, value] : body.items()) {
    const auto pointer = "/" + schema::pointer_token(key);
    const auto* const known =
        std::ranges::find_if(texts, [&](const auto& item) { return key == item.first; });
    if (known != std::end(texts)) {
      if (!value.is_string())
        return schema::fail(ErrorCode::invalid_document, fmt::format("'{}' must be a string", key), pointer);
      if (key == "name" && !name.empty() && value != name)
        return schema::fail(ErrorCode::invalid_document, "the name is not the one in the path", pointer);
      *known->second = value.get<std::string>();
    } else if (key == "grace_s" && value.is_number_integer()) {
      request.grace_s = value.get<std::int64_t>();
    } else if (key == "promotion" && value.is_object()) {
      request.request = value.dump();
    } else {
      return schema::fail(
          ErrorCode::invalid_document,
          fmt::format(
              "'{}' is not a member of a schedule, or has another type; a schedule has name, cron, timezone, "
              "promotion, misfire, grace_s and if_running",
              key),
          pointer);
    }
  }
  if (request.cron.empty()) return schema::fail(ErrorCode::invalid_document, "'cron' is missing", "/cron");
  if (request.request.empty())
    return schema::fail(ErrorCode::invalid_document, "'promotion', the request to make, is missing",
                        "/promotion");
  return request;
}

std::unique_ptr<ScheduleAdmin> stored_schedules(store::Store& store, std::function<std::int64_t()> now_us,
                                                ScheduleTrial trial) {
  return std::make_unique<StoredSchedules>(store, std::move(now_us), std::move(trial));
}

}  // namespace driftgate::pipeline
