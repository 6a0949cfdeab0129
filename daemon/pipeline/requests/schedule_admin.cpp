#include "daemon/pipeline/requests/schedule_admin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/evidence/log/log.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/read/lists.hpp"
#include "daemon/pipeline/requests/request.hpp"
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

constexpr std::int64_t kShownFires = 20;
constexpr std::int64_t kSecond = 1'000'000;

template <typename T>
json maybe(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

schema::Result<View> view_of(store::Reader& reader, const store::ScheduleRow& row) {
  auto fires = TRY(store::list_schedule_fires(reader, row.name, kShownFires));
  json list = json::array();
  for (const auto& fire : fires) {
    list.push_back({{"fire_us", fire.fire_us},
                    {"outcome", fire.outcome},
                    {"why", fire.why},
                    {"promotion", maybe(fire.promotion)},
                    {"evidence", fire.evidence_seq}});
  }
  const json value{{"name", row.name},
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
  return View{row.name, row.revision, false, schema::canonical_json(value)};
}

std::optional<std::int64_t> next_us(const schedule::Cron& cron, const schedule::Zone& zone,
                                    std::int64_t now_us) {
  const auto next = schedule::next_fire(cron, zone, now_us / kSecond);
  return next ? std::optional(*next * kSecond) : std::nullopt;
}

/// The row that a request stands for; next_us after `now_us`.
schema::Result<store::ScheduleRow> row_of(const ScheduleRequest& request, const std::string& actor,
                                          std::int64_t now_us) {
  const auto cron = TRY(about("/cron", schedule::parse_cron(request.cron)));
  const auto zone = TRY(about("/timezone", schedule::Zone::find(request.zone)));
  if (request.misfire != "skip" && request.misfire != "run_once")
    return schema::fail(ErrorCode::invalid_argument, "misfire is skip or run_once", "/misfire");
  if (request.if_running != "skip" && request.if_running != "queue")
    return schema::fail(ErrorCode::invalid_argument, "if_running is skip or queue", "/if_running");
  if (request.grace_s < 0 || request.grace_s > kMaxGraceSeconds)
    return schema::fail(ErrorCode::invalid_argument, fmt::format("grace_s is 0 to {}", kMaxGraceSeconds),
                        "/grace_s");
  const auto promotion = TRY(about("/promotion", parse_promotion_request(request.request)));
  store::ScheduleRow row;
  row.name = request.name;
  row.cron = cron.text;
  row.zone = zone.name();
  row.model = promotion.model;
  row.request = to_json(promotion);
  row.misfire = request.misfire;
  row.grace_s = request.grace_s;
  row.if_running = request.if_running;
  row.owner = actor;
  row.created_us = row.updated_us = now_us;
  row.next_us = next_us(cron, zone, now_us);
  return row;
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

class StoredSchedules final : public ScheduleAdmin {
 public:
  StoredSchedules(store::Store& store, std::function<std::int64_t()> now_us)
      : store_(store), now_us_(std::move(now_us)) {}

  schema::Result<View> create(const std::string& actor, const ScheduleRequest& request) override {
    TRY(schema::check_name(request.name, "a schedule's name", "/name"));
    auto row = TRY(row_of(request, actor, now_us_()));
    TRY(store_.write("create schedule", [&](store::Tx& tx) -> schema::Result<void> {
      auto all = TRY(store::list_schedules(tx, "", kMaxSchedules));
      if (all.size() >= kMaxSchedules)
        return schema::fail(ErrorCode::limit_exceeded,
                            fmt::format("there are {} schedules already", kMaxSchedules));
      TRY(store::insert_schedule(tx, row));
      TRY(record_set(tx, actor, row, row.created_us, "created"));
      if (!store::is_answer_wanted()) return {};
      auto view = TRY(view_of(tx, row));
      return store::note_made(tx, {.id = view.id, .json = view.json, .revision = view.seq});
    }));
    auto view = get(request.name);
    if (view) view->created = true;
    return view;
  }

  schema::Result<View> replace(const std::string& actor, const ScheduleRequest& request,
                               std::uint64_t revision) override {
    auto row = TRY(row_of(request, actor, now_us_()));
    return change(actor, request.name, revision, "replaced", [&](store::ScheduleRow& stored) {
      row.paused = stored.paused;
      row.revision = stored.revision;
      stored = row;
    });
  }

  schema::Result<View> set_paused(const std::string& actor, const std::string& name, bool paused,
                                  std::uint64_t revision) override {
    return change(actor, name, revision, paused ? "paused" : "resumed", [&](store::ScheduleRow& stored) {
      stored.paused = paused;
      // What would have fired while it was paused is not missed.
      const auto cron = schedule::parse_cron(stored.cron);
      const auto zone = schedule::Zone::find(stored.zone);
      if (!cron || !zone) return;
      stored.next_us = next_us(*cron, *zone, now_us_());
    });
  }

  schema::Result<void> remove(const std::string& actor, const std::string& name,
                              std::uint64_t revision) override {
    return store_.write("delete schedule", [&](store::Tx& tx) -> schema::Result<void> {
      auto row = TRY(store::get_schedule(tx, name));
      TRY(store::delete_schedule(tx, name, revision));
      return record(tx, schema::EvidenceKind::schedule_deleted, actor, row, now_us_(), {});
    });
  }

  schema::Result<View> get(const std::string& name) override {
    return store_.read([&](store::Reader& reader) -> schema::Result<View> {
      auto row = TRY(store::get_schedule(reader, name));
      return view_of(reader, row);
    });
  }

  schema::Result<Page> list(const PageRequest& request) override {
    const auto limit = std::clamp<std::size_t>(request.limit, 1, kMaxPageItems);
    return view_page(store_, {request.after, limit}, store::list_schedules, view_of,
                     &store::ScheduleRow::name);
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
  template <typename F>
  schema::Result<View> change(const std::string& actor, const std::string& name, std::uint64_t revision,
                              const char* what, F edit) {
    TRY(store_.write("change schedule", [&](store::Tx& tx) -> schema::Result<void> {
      auto row = TRY(store::get_schedule(tx, name));
      const auto created_us = row.created_us;
      row.revision = revision;
      edit(row);
      row.created_us = created_us;
      row.updated_us = now_us_();
      TRY(store::update_schedule(tx, row));
      return record_set(tx, actor, row, row.updated_us, what);
    }));
    return get(name);
  }

  store::Store& store_;
  std::function<std::int64_t()> now_us_;
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

std::unique_ptr<ScheduleAdmin> stored_schedules(store::Store& store, std::function<std::int64_t()> now_us) {
  return std::make_unique<StoredSchedules>(store, std::move(now_us));
}

}  // namespace driftgate::pipeline
