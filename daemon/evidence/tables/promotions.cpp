#include <fmt/format.h>

#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/tables/parts.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/registry/versions.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::evidence::tables {

using nlohmann::json;
using schema::EvidenceKind;

namespace {

constexpr std::string_view kBaselineReason = "baseline locked at ";

EntryFilter of_promotion(const std::string& promotion, std::vector<EvidenceKind> kinds) {
  return {.promotion = promotion, .kinds = std::move(kinds)};
}

/// Whether an entry changes the promotion's row. A refused decision does not.
bool changes_the_row(const LogEntry& entry) {
  const auto decision = text_at(entry.body, "decision");
  return (entry.kind != "approval_given" && entry.kind != "waiver_given") || decision == "approve" ||
         decision == "waive";
}

void compare_request(Findings& findings, const std::string& where, const store::PromotionRow& row,
                     const LogEntry& requested) {
  RowCheck check(findings, where, requested);
  check.subject("the model", row.model, "model");
  check.subject("the contract", row.contract, "contract");
  check.column("the requester", row.requester, requested.actor);
  check.member("the engine", row.engine, "engine");
  check.member("the candidate", row.candidate, "candidate");
  check.member("the seed", static_cast<std::int64_t>(row.seed), "seed");
  check.document_member("the request", row.request, "request");
  if (requested.body.contains("fallback"))
    check.column("the fallback", row.fallback, text_at(object_at(requested.body, "fallback"), "version"));
}

/// As an entry has a time: NULL is −1.
std::int64_t time_of(const std::optional<std::int64_t>& time_us) {
  return time_us.value_or(-1);
}

/// `change` is the newest change of state.
void compare_state(Findings& findings, const std::string& where, const store::PromotionRow& row,
                   const LogEntry& change) {
  RowCheck check(findings, where, change);
  check.member("the state", store::to_string(row.state), "to");
  check.member("the stage", row.stage, "stage");
  check.member("the attempt", row.attempt, "attempt");
  check.member("what users saw of it", store::to_string(row.traffic), "traffic");
  check.member("the baseline", row.baseline, "baseline");
  check.member("where it goes on", row.resume_state ? store::to_string(*row.resume_state) : "", "resume");
  check.member("the deadline", time_of(row.deadline_us), "deadline_us");
  check.member("the digest of its outcome", row.outcome.empty() ? "" : schema::sha256_digest(row.outcome),
               "outcome_digest");
}

/// What a promotion is from its request to its first change of state.
void compare_queued(Findings& findings, const std::string& where, const store::PromotionRow& row,
                    const LogEntry& requested) {
  RowCheck check(findings, where, requested);
  check.column("the state", store::to_string(row.state), "queued");
  check.column("the stage", row.stage, "");
  check.column("what users saw of it", store::to_string(row.traffic), "never_exposed");
  check.column("the baseline", row.baseline, "");
  check.column("the outcome", row.outcome, "");
}

/// Entries of older programs name the baseline in the reason of the change that locked it.
Result<void> compare_baseline(LogView& log, const std::string& where, const store::PromotionRow& row) {
  auto first = TRY(log.oldest(of_promotion(row.id, {EvidenceKind::state_changed})));
  if (!first) return {};
  const auto reason = text_at(first->body, "reason");
  const bool locked = text_at(first->body, "to") == "running" && reason.starts_with(kBaselineReason);
  RowCheck(log.findings(), where, *first)
      .column("the baseline", row.baseline, locked ? reason.substr(kBaselineReason.size()) : "");
  return {};
}

/// The newest entry that the row was written with.
Result<std::optional<LogEntry>> last_change(LogView& log, const std::string& promotion) {
  auto filter = of_promotion(promotion, {EvidenceKind::promotion_requested, EvidenceKind::state_changed,
                                         EvidenceKind::approval_given, EvidenceKind::waiver_given});
  filter.newest_first = true;
  filter.limit = 4;
  std::optional<LogEntry> found;
  TRY(log.each(filter, [&](const LogEntry& entry) {
    if (!changes_the_row(entry)) return true;
    found = entry;
    return false;
  }));
  return found;
}

/// Checks the contract's document, since the demands of the clauses are read from it.
Result<void> compare_contract(LogView& log, const LogEntry& requested) {
  const auto digest = text_at(requested.subject, "contract");
  auto contract = TRY(store::find_contract(log.reader(), digest));
  const auto where = fmt::format("contract {}", digest);
  if (!contract) {
    log.findings().add(where, fmt::format("it is not in the table, but {} names it", requested.name()));
    return {};
  }
  RowCheck(log.findings(), where, requested)
      .column("the digest of its document", schema::document_digest(contract->canonical), digest);
  return {};
}

/// URLs that an engine was registered with before an entry of an older program, which does not name the one
/// that its version got.
Result<bool> had_url(LogView& log, const store::VersionRow& version, std::int64_t before) {
  EntryFilter filter{.kind = EvidenceKind::engine_registered, .newest_first = true, .cursor = before};
  if (!version.checkpoint.empty()) filter.checkpoint = version.checkpoint;
  bool found = false;
  TRY(log.each(filter, [&](const LogEntry& engine) {
    found = text_at(engine.body, "name") == version.engine && text_at(engine.body, "url") == version.base_url;
    return !found;
  }));
  return found;
}

Result<void> compare_fallback(LogView& log, const LogEntry& requested) {
  const json fallback = object_at(requested.body, "fallback");
  if (fallback.empty()) return {};
  const auto id = text_at(fallback, "version");
  const auto where = fmt::format("version {}", id);
  auto version = TRY(store::find_version(log.reader(), id));
  if (!version) {
    log.findings().add(where, fmt::format("it is not in the table, but {} names it", requested.name()));
    return {};
  }
  RowCheck check(log.findings(), where, requested);
  check.column("the URL", version->base_url, text_at(fallback, "url"));
  check.column("the engine", version->engine, text_at(fallback, "engine"));
  check.column("the kernel", version->kernel, text_at(fallback, "kernel"));
  return {};
}

}  // namespace

Result<void> check_version(LogView& log, const std::string& id, const LogEntry& entry) {
  const auto where = fmt::format("version {}", id);
  auto version = TRY(store::find_version(log.reader(), id));
  if (!version) {
    log.findings().add(where, fmt::format("it is not in the table, but {} names it", entry.name()));
    return {};
  }
  const auto& row = *version;
  RowCheck check(log.findings(), where, entry);
  check.subject("the checkpoint", row.checkpoint, "checkpoint");
  check.member("the engine", row.engine, "engine");
  check.member("the kernel", row.kernel, "kernel");
  check.member("the URL", row.base_url, "url");
  if (entry.body.contains("url")) return {};
  auto known = TRY(had_url(log, row, entry.seq));
  if (!known)
    log.findings().add(
        where,
        fmt::format("the URL is '{}' in the table, but no entry before {} registers engine '{}' with it",
                    row.base_url, entry.name(), row.engine));
  return {};
}

Result<void> check_promotion(LogView& log, const std::string& promotion) {
  const auto where = fmt::format("promotion {}", promotion);
  auto row = TRY(store::find_promotion(log.reader(), promotion));
  auto requested = TRY(log.oldest(of_promotion(promotion, {EvidenceKind::promotion_requested})));
  auto& findings = log.findings();
  if (!requested) {
    findings.add(where, "it is in the table, but no entry of the log asked for it");
    return {};
  }
  if (!row) {
    findings.add(where, fmt::format("it is not in the table, but {} asked for it", requested->name()));
    return {};
  }
  compare_request(findings, where, *row, *requested);
  auto state = TRY(log.newest(of_promotion(promotion, {EvidenceKind::state_changed})));
  const auto last = TRY(last_change(log, promotion));
  if (last)
    RowCheck(findings, where, *last).column("the entry of its last change", row->evidence_seq, last->seq);
  if (state) {
    compare_state(findings, where, *row, *state);
    if (last && last->kind == "state_changed")
      RowCheck(findings, where, *last).member("the reason", row->reason, "reason");
    TRY(compare_baseline(log, where, *row));
  } else {
    compare_queued(findings, where, *row, *requested);
  }
  TRY(compare_contract(log, *requested));
  TRY(check_version(log, text_at(requested->body, "candidate"), *requested));
  return compare_fallback(log, *requested);
}

}  // namespace driftgate::evidence::tables
