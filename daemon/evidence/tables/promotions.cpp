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
  EntryFilter filter;
  filter.promotion = promotion;
  filter.kinds = std::move(kinds);
  return filter;
}

/// Who is refused a decision changes nothing.
bool changes_the_row(const LogEntry& entry) {
  const auto decision = text_at(entry.body, "decision");
  return (entry.kind != "approval_given" && entry.kind != "waiver_given") || decision == "approve" ||
         decision == "waive";
}

void compare_request(Findings& findings, const std::string& where, const store::PromotionRow& row,
                     const LogEntry& requested) {
  findings.column(where, "the model", row.model, text_at(requested.subject, "model"), requested);
  findings.column(where, "the contract", row.contract, text_at(requested.subject, "contract"), requested);
  findings.column(where, "the requester", row.requester, requested.actor, requested);
  findings.member(where, "the engine", row.engine, requested, "engine");
  findings.member(where, "the candidate", row.candidate, requested, "candidate");
  findings.member(where, "the seed", static_cast<std::int64_t>(row.seed), requested, "seed");
  if (requested.body.contains("request"))
    findings.document(where, "the request", row.request, requested.body["request"], requested);
  if (requested.body.contains("fallback"))
    findings.column(where, "the fallback", row.fallback,
                    text_at(object_at(requested.body, "fallback"), "version"), requested);
}

/// As an entry has a time: NULL is −1.
std::int64_t time_of(const std::optional<std::int64_t>& time_us) {
  return time_us.value_or(-1);
}

/// `change` is the newest change of state.
void compare_state(Findings& findings, const std::string& where, const store::PromotionRow& row,
                   const LogEntry& change) {
  findings.member(where, "the state", store::to_string(row.state), change, "to");
  findings.member(where, "the stage", row.stage, change, "stage");
  findings.member(where, "the attempt", row.attempt, change, "attempt");
  findings.member(where, "what users saw of it", store::to_string(row.traffic), change, "traffic");
  findings.member(where, "the baseline", row.baseline, change, "baseline");
  findings.member(where, "where it goes on", row.resume_state ? store::to_string(*row.resume_state) : "", change,
                  "resume");
  findings.member(where, "the deadline", time_of(row.deadline_us), change, "deadline_us");
  findings.member(where, "the digest of its outcome",
                  row.outcome.empty() ? std::string() : schema::sha256_digest(row.outcome), change,
                  "outcome_digest");
}

/// What a promotion is from its request to its first change of state.
void compare_queued(Findings& findings, const std::string& where, const store::PromotionRow& row,
                    const LogEntry& requested) {
  findings.column(where, "the state", store::to_string(row.state), "queued", requested);
  findings.column(where, "the stage", row.stage, "", requested);
  findings.column(where, "what users saw of it", store::to_string(row.traffic), "never_exposed", requested);
  findings.column(where, "the baseline", row.baseline, "", requested);
  findings.column(where, "the outcome", row.outcome, "", requested);
}

/// Entries of older programs name the baseline in the reason of the change that locked it.
Result<void> compare_baseline(LogView& log, const std::string& where, const store::PromotionRow& row) {
  auto first = TRY(log.oldest(of_promotion(row.id, {EvidenceKind::state_changed})));
  if (!first) return {};
  const auto reason = text_at(first->body, "reason");
  const bool locked = text_at(first->body, "to") == "running" && reason.starts_with(kBaselineReason);
  log.findings().column(where, "the baseline", row.baseline,
                        locked ? reason.substr(kBaselineReason.size()) : std::string(), *first);
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

/// What the clauses demand is read from the contract's document.
Result<void> compare_contract(LogView& log, const LogEntry& requested) {
  const auto digest = text_at(requested.subject, "contract");
  auto contract = store::find_contract(log.reader(), digest);
  if (!contract) return std::unexpected(std::move(contract.error()));
  const auto where = fmt::format("contract {}", digest);
  if (!*contract) {
    log.findings().add(where, fmt::format("it is not in the table, but {} names it", requested.name()));
    return {};
  }
  log.findings().column(where, "the digest of its document", schema::document_digest((*contract)->canonical), digest,
                        requested);
  return {};
}

/// URLs that an engine was registered with before an entry of an older program, which does not name the one
/// that its version got.
Result<bool> had_url(LogView& log, const store::VersionRow& version, std::int64_t before) {
  EntryFilter filter;
  filter.kind = EvidenceKind::engine_registered;
  if (!version.checkpoint.empty()) filter.checkpoint = version.checkpoint;
  filter.newest_first = true;
  filter.cursor = before;
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
  log.findings().column(where, "the URL", version->base_url, text_at(fallback, "url"), requested);
  log.findings().column(where, "the engine", version->engine, text_at(fallback, "engine"), requested);
  log.findings().column(where, "the kernel", version->kernel, text_at(fallback, "kernel"), requested);
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
  log.findings().column(where, "the checkpoint", row.checkpoint, text_at(entry.subject, "checkpoint"), entry);
  log.findings().member(where, "the engine", row.engine, entry, "engine");
  log.findings().member(where, "the kernel", row.kernel, entry, "kernel");
  log.findings().member(where, "the URL", row.base_url, entry, "url");
  if (entry.body.contains("url")) return {};
  auto known = TRY(had_url(log, row, entry.seq));
  if (!known)
    log.findings().add(where, fmt::format("the URL is '{}' in the table, but no entry before {} registers engine "
                                          "'{}' with it",
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
  auto last = last_change(log, promotion);
  if (!last) return std::unexpected(std::move(last.error()));
  if (*last) findings.column(where, "the entry of its last change", row->evidence_seq, (*last)->seq, **last);
  if (state) {
    compare_state(findings, where, *row, *state);
    if (*last && (*last)->kind == "state_changed")
      findings.member(where, "the reason", row->reason, **last, "reason");
    auto baseline = compare_baseline(log, where, *row);
    if (!baseline) return baseline;
  } else {
    compare_queued(findings, where, *row, *requested);
  }
  auto contract = compare_contract(log, *requested);
  if (!contract) return contract;
  auto candidate = check_version(log, text_at(requested->body, "candidate"), *requested);
  if (!candidate) return candidate;
  return compare_fallback(log, *requested);
}

}  // namespace driftgate::evidence::tables
