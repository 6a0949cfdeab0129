#include "daemon/pipeline/breaker_watch.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/promotions/router_windows.hpp"

namespace driftgate::pipeline {
namespace {

/// Which arm of a route an engine serves, or "".
std::string_view arm_of(const route::ModelRoute& route, const std::string& url) {
  if (route.candidate && route.candidate->url == url) return "candidate";
  if (route.incumbent.url == url) return "incumbent";
  return route.fallback && route.fallback->url == url ? "fallback" : "";
}

schema::EntryValue::Object body_of(const std::string& router, const route::BreakerEvent& event,
                                   std::string_view arm) {
  schema::EntryValue::Object body{{"engine", event.url},
                                  {"arm", std::string(arm)},
                                  {"state", std::string(event.opened ? "open" : "closed")},
                                  {"reason", event.reason},
                                  {"router", router},
                                  {"event", event.number},
                                  {"at_us", event.at_us}};
  if (event.opened) {
    body["failures"] = static_cast<std::uint64_t>(event.failures);
    body["first_failure_us"] = event.first_failure_us;
  } else {
    body["open_ms"] = event.open_ms;
  }
  return body;
}

}  // namespace

void BreakerWatch::look() {
  const auto report = context_.world.driver.outages(position_);
  if (!report) {
    context_.outages.clear();
    // A data plane that is away is told of where its telemetry is read.
    const bool away = report.error().code == schema::ErrorCode::unavailable;
    if (!away)
      context_.warn(fmt::format("the health of engines cannot be read: {}", report.error().describe()));
    return;
  }
  for (const auto& event : report->events) {
    if (auto done = record(report->router_id, event); !done) {
      context_.warn(fmt::format("event {} of the breakers of router {} is not stored yet: {}", event.number,
                                report->router_id, done.error().describe()));
      break;
    }
    position_ = {report->router_id, event.number};
  }
  note_outages(*report);
}

/// One entry for each model that the engine serves, in one transaction. That the event was recorded is part
/// of it, so that an event is recorded once, however often it is read.
schema::Result<void> BreakerWatch::record(const std::string& router, const route::BreakerEvent& event) {
  std::vector<schema::EntryDraft> drafts;
  const auto draft_for = [&](std::string_view arm) -> schema::EntryDraft& {
    return drafts.emplace_back(schema::EntryDraft{.time_us = context_.now(),
                                                  .kind = schema::EvidenceKind::breaker_changed,
                                                  .actor = kDaemonActor,
                                                  .body = body_of(router, event, arm)});
  };
  for (const auto& [name, model] : context_.models) {
    const auto arm = arm_of(model.desired, event.url);
    if (arm.empty()) continue;
    auto& entry = draft_for(arm);
    entry.subject.model = name;
    if (const auto* live = context_.holder(name))
      entry.subject = subject_of(live->row, live->candidate.checkpoint, &live->run.key);
  }
  if (drafts.empty()) draft_for("none");
  TRY(context_.commit_rows("breaker changed", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    const auto newest = TRY(store::breaker_event(tx, router));
    if (event.number <= newest) return {};  // an earlier daemon recorded it and died
    for (const auto& entry : drafts) TRY(add_entry(tx, entries, entry));
    return store::note_breaker_event(tx, router, event.number);
  }));
  return {};
}

void BreakerWatch::note_outages(const route::HealthReport& report) {
  std::map<std::string, EngineOutage, std::less<>> outages;
  for (const auto& engine : report.engines) {
    if (engine.state == route::BreakerState::closed) continue;
    outages[engine.url] = {engine.state == route::BreakerState::half_open,
                           context_.now() - static_cast<std::int64_t>(engine.open_ms) * 1'000,
                           engine.first_failure_us, engine.failures, engine.reason};
  }
  context_.outages = std::move(outages);
  for (auto& [id, live] : context_.promotions) {
    if (!context_.outages.contains(live->candidate.base_url)) live->outage_decided = false;
  }
}

std::vector<std::string> BreakerWatch::due() const {
  std::vector<std::string> ids;
  for (const auto& [id, live] : context_.promotions) {
    const bool decides = live->canary && stage_is_open(live->row.state) && live->retry_at_us == 0 &&
                         live->run.state == store::StageRunState::running && !live->outage_decided;
    if (!decides) continue;
    const auto outage = context_.outages.find(live->candidate.base_url);
    if (outage == context_.outages.end() || outage->second.trying) continue;
    const auto open_ms = (context_.now() - outage->second.opened_us) / 1'000;
    if (open_ms > stages::kBreakerPatienceMs) ids.push_back(id);
  }
  return ids;
}

}  // namespace driftgate::pipeline
