#include <fmt/format.h>

#include <set>

#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/tables/parts.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/registry/models.hpp"
#include "daemon/store/registry/routes.hpp"
#include "daemon/store/registry/versions.hpp"
#include "schema/metrics.hpp"

namespace driftgate::evidence::tables {

using nlohmann::json;
using schema::EvidenceKind;

namespace {

EntryFilter of_model(const std::string& model, EvidenceKind kind) {
  return {.model = model, .kind = kind};
}

json route_of(const LogEntry& entry) {
  return object_at(entry.body, "route");
}

std::string incumbent_in(const LogEntry& entry) {
  return text_at(object_at(route_of(entry), "incumbent"), "version");
}

/// Desired and applied are stored and recorded alike.
void compare_route(Findings& findings, const std::string& where, const std::optional<store::RouteRow>& row,
                   const std::optional<LogEntry>& entry) {
  if (!row && !entry) return;
  if (!row) return findings.add(where, fmt::format("it is not in the table, but {} has it", entry->name()));
  if (!entry) return findings.add(where, "it is in the table, but the log has none");
  const json route = route_of(*entry);
  RowCheck check(findings, where, *entry);
  check.document("the route", row->route, route);
  check.column("epoch", static_cast<std::int64_t>(row->epoch), integer_at(route, "epoch"));
  check.column("revision", static_cast<std::int64_t>(row->revision), integer_at(route, "revision"));
}

/// The versions that a route names are rows too, from which the next route is made.
Result<void> compare_arms(LogView& log, const LogEntry& entry) {
  const json route = route_of(entry);
  for (const char* role : {"incumbent", "candidate", "fallback"}) {
    const json arm = object_at(route, role);
    const auto id = text_at(arm, "version");
    if (id.empty()) continue;
    const auto where = fmt::format("version {}", id);
    auto version = TRY(store::find_version(log.reader(), id));
    if (!version) {
      log.findings().add(where, fmt::format("it is not in the table, but {} routes to it", entry.name()));
      continue;
    }
    RowCheck check(log.findings(), where, entry);
    check.column("the URL", version->base_url, text_at(arm, "url"));
    check.column("the kernel", version->kernel, text_at(arm, "kernel"));
  }
  return {};
}

/// The newest change of state within a stage, but for rollbacks of what had succeeded: those of promotions that
/// only waited have no stage.
Result<std::optional<LogEntry>> newest_change(LogView& log, const std::string& model) {
  std::optional<LogEntry> newest;
  for (std::size_t stage = 0; stage < schema::kStageCount; ++stage) {
    auto filter = of_model(model, EvidenceKind::state_changed);
    filter.stage = std::string(schema::to_string(static_cast<schema::Stage>(stage)));
    filter.newest_first = true;
    filter.limit = 4;
    TRY(log.each(filter, [&](const LogEntry& change) {
      if (text_at(change.body, "from") == "succeeded") return true;
      if (!newest || change.seq > newest->seq) newest = change;
      return false;
    }));
  }
  return newest;
}

/// The change of state that the promotion which holds the model is in; nothing when none holds it.
Result<std::optional<LogEntry>> holder_of(LogView& log, const std::string& model) {
  auto change = TRY(newest_change(log, model));
  if (!change) return std::nullopt;
  const auto to = store::parse_state<store::PromotionState>(text_at(change->body, "to"));
  if (!to || !store::holds_model(*to)) return std::nullopt;
  return change;
}

/// The incumbent of the desired route, but for a promotion that waits for its last route to be read back: there
/// it is the version before the candidate until then.
Result<void> compare_incumbent(LogView& log, const store::ModelRow& row, const LogEntry& desired,
                               const std::optional<LogEntry>& holder) {
  std::optional<LogEntry> source = desired;
  if (holder && text_at(holder->body, "to") == "finalizing") {
    const auto candidate = incumbent_in(desired);
    auto filter = of_model(row.name, EvidenceKind::route_desired);
    filter.newest_first = true;
    filter.limit = 4;
    source.reset();
    TRY(log.each(filter, [&](const LogEntry& before) {
      if (incumbent_in(before) == candidate) return true;
      source = before;
      return false;
    }));
  }
  if (source) {
    RowCheck(log.findings(), fmt::format("model '{}'", row.name), *source)
        .column("the incumbent", row.incumbent, incumbent_in(*source));
  }
  return {};
}

Result<void> compare_hold(LogView& log, const store::ModelRow& row) {
  const auto newest =
      TRY(log.newest({.model = row.name, .kinds = {EvidenceKind::hold_set, EvidenceKind::hold_lifted}}));
  const auto where = fmt::format("model '{}'", row.name);
  auto& findings = log.findings();
  const bool held = newest && newest->kind == "hold_set";
  if (row.hold && !held) {
    findings.add(where, newest ? fmt::format("the table has a hold, but {} lifted it", newest->name())
                               : std::string("the table has a hold, but the log never had one"));
  } else if (!row.hold && held) {
    findings.add(where,
                 fmt::format("the table has no hold, but {} set one that nobody lifted", newest->name()));
  } else if (held) {
    RowCheck check(findings, where, *newest);
    check.member("the reason of its hold", *row.hold, "reason");
    check.column("who set its hold", row.held_by, newest->actor);
    check.subject("the promotion of its hold", row.hold_promotion, "promotion");
  }
  return {};
}

/// What the log says is under way: the promotion that holds the model, and the newest request.
Result<void> compare_under_way(LogView& log, const std::string& model, const std::optional<LogEntry>& holder) {
  std::set<std::string> promotions;
  if (holder) promotions.insert(text_at(holder->subject, "promotion"));
  auto requested = TRY(log.newest(of_model(model, EvidenceKind::promotion_requested)));
  if (requested) promotions.insert(text_at(requested->subject, "promotion"));
  for (const auto& id : promotions) {
    TRY(check_promotion(log, id));
  }
  return {};
}

}  // namespace

Result<void> check_model(LogView& log, const std::string& model) {
  const auto where = fmt::format("model '{}'", model);
  auto row = TRY(store::find_model(log.reader(), model));
  const auto installed = TRY(log.newest(of_model(model, EvidenceKind::model_bootstrapped)));
  if (!installed) {
    log.findings().add(where, "it is in the table, but no entry of the log installed it");
    return {};
  }
  if (!row) {
    log.findings().add(where, fmt::format("it is not in the table, but {} installed it", installed->name()));
    return {};
  }
  TRY(check_version(log, text_at(installed->body, "version"), *installed));
  const auto desired_row = TRY(store::find_desired_route(log.reader(), model));
  const auto applied_row = TRY(store::find_applied_route(log.reader(), model));
  const auto desired = TRY(log.newest(of_model(model, EvidenceKind::route_desired)));
  const auto applied = TRY(log.newest(of_model(model, EvidenceKind::route_applied)));
  compare_route(log.findings(), fmt::format("the desired route of model '{}'", model), desired_row, desired);
  compare_route(log.findings(), fmt::format("the applied route of model '{}'", model), applied_row, applied);
  const auto holder = TRY(holder_of(log, model));
  if (desired) {
    const auto epoch = integer_at(route_of(*desired), "epoch");
    RowCheck(log.findings(), where, *desired).column("epoch", static_cast<std::int64_t>(row->epoch), epoch);
    TRY(compare_arms(log, *desired));
    TRY(compare_incumbent(log, *row, *desired, holder));
  }
  TRY(compare_hold(log, *row));
  return compare_under_way(log, model, holder);
}

}  // namespace driftgate::evidence::tables
