#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/tables/parts.hpp"
#include "daemon/store/promotions/approvals.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/promotions/verdicts.hpp"
#include "daemon/store/promotions/waivers.hpp"

namespace driftgate::evidence::tables {

using nlohmann::json;
using schema::EvidenceKind;

namespace {

using Attempt = std::pair<std::string, std::int64_t>;                                ///< stage, attempt
using VerdictKey = std::tuple<std::string, std::int64_t, std::string, std::string>;  ///< …, clause, slice
/// Stage, attempt, step, who, evidence digest: a later approval of the same takes the place of the earlier one.
using ApprovalKey = std::tuple<std::string, std::int64_t, std::int64_t, std::string, std::string>;

/// Members of a verdict's entry that are written beside those of the table's detail.
constexpr std::array<std::string_view, 5> kBeside = {"clause", "verdict", "slice", "inputs_digest",
                                                     "code_version"};

Attempt attempt_of(const LogEntry& entry) {
  return {text_at(entry.subject, "stage"), integer_at(entry.subject, "attempt")};
}

std::string attempt_text(const std::string& promotion, const Attempt& attempt) {
  return fmt::format("{}/{}/{}", promotion, attempt.first, attempt.second);
}

int weight(const std::string& verdict) {
  static constexpr std::array<std::string_view, 4> kOrder = {"pass", "inconclusive", "error", "violated"};
  return static_cast<int>(std::ranges::find(kOrder, verdict) - kOrder.begin());
}

/// What the entries of one promotion say that its tables hold.
class Expected {
 public:
  void add(const LogEntry& entry) {
    if (entry.kind == "state_changed") {
      const auto stage = text_at(entry.body, "stage");
      if (!stage.empty()) attempts.insert({stage, integer_at(entry.body, "attempt")});
    } else if (entry.kind == "approval_given" && text_at(entry.body, "decision") == "approve") {
      const auto [stage, attempt] = attempt_of(entry);
      approvals.insert_or_assign({stage, attempt, integer_at(entry.body, "step"), entry.actor,
                                  text_at(entry.body, "evidence_digest")},
                                 entry);
    } else if (entry.kind == "waiver_given" && text_at(entry.body, "decision") == "waive") {
      waivers.insert_or_assign(text_at(entry.body, "waiver"), entry);
    } else if (entry.kind == "verdict_reached") {
      add_verdict(entry);
    }
  }

  std::set<Attempt> attempts;
  std::map<ApprovalKey, LogEntry> approvals;
  std::map<std::string, LogEntry> waivers;  ///< by id
  std::map<VerdictKey, LogEntry> verdicts;
  std::map<Attempt, LogEntry> ended;  ///< the verdict that an attempt ended with

 private:
  /// The clauses' verdicts of one look stand before that of the stage, and replace those of the look before. Of two
  /// on one slice the weightier is kept, of two alike the later.
  void add_verdict(const LogEntry& entry) {
    const auto [stage, attempt] = attempt_of(entry);
    if (text_at(entry.body, "scope") == "stage") {
      for (auto& [key, verdict] : look_) verdicts.insert_or_assign(key, std::move(verdict));
      look_.clear();
      if (entry.body.value("ended", true)) ended.insert_or_assign({stage, attempt}, entry);
      return;
    }
    const VerdictKey key{stage, attempt, text_at(entry.body, "clause"), text_at(entry.body, "slice")};
    const auto known = look_.find(key);
    const bool stays = known != look_.end() &&
                       weight(text_at(known->second.body, "verdict")) > weight(text_at(entry.body, "verdict"));
    if (!stays) look_.insert_or_assign(key, entry);
  }

  std::map<VerdictKey, LogEntry> look_;
};

void compare_run(Findings& findings, const store::StageRunRow& run, const Expected& expected) {
  const auto where = fmt::format("stage {}", run.key.text());
  if (!expected.attempts.contains({run.key.stage, run.key.attempt}))
    return findings.add(where, "it is in the table, but no entry of the log began it");
  const auto found = expected.ended.find({run.key.stage, run.key.attempt});
  if (found == expected.ended.end()) {
    // Silence ends a run as an error that no clause came to.
    const bool undecided = run.state == store::StageRunState::running ||
                           run.state == store::StageRunState::stopped || run.state == store::StageRunState::error;
    if (!undecided || !run.report.empty())
      findings.add(where, fmt::format("the table says that it ended as {}, but the log has no verdict of it",
                                      store::to_string(run.state)));
    return;
  }
  RowCheck check(findings, where, found->second);
  check.member("the state", store::to_string(run.state), "verdict");
  check.column("the report", run.report, text_at(found->second.body, "report_digest"));
}

Result<void> compare_runs(LogView& log, const std::string& promotion, const Expected& expected) {
  auto runs = TRY(store::list_stage_runs(log.reader(), promotion));
  std::set<Attempt> stored;
  for (const auto& run : runs) {
    stored.insert({run.key.stage, run.key.attempt});
    compare_run(log.findings(), run, expected);
  }
  for (const auto& attempt : expected.attempts) {
    if (!stored.contains(attempt))
      log.findings().add(fmt::format("stage {}", attempt_text(promotion, attempt)),
                         "it is not in the table, but the log began it");
  }
  return {};
}

/// The detail is what later stages read; its members stand in the entry.
void compare_detail(Findings& findings, const std::string& where, const store::VerdictRow& row,
                    const LogEntry& entry) {
  const auto detail = json::parse(row.detail, nullptr, false);
  if (!detail.is_object()) return findings.add(where, "the detail in the table is not a JSON object");
  for (const auto& [name, value] : detail.items()) {
    if (std::ranges::find(kBeside, name) != kBeside.end()) continue;
    const auto found = entry.body.find(name);
    const bool same = found == entry.body.end() ? value.is_null() : says_the_same(*found, value);
    if (!same)
      findings.add(where, fmt::format("'{}' of its detail in the table is not what {} says", name, entry.name()));
  }
}

Result<void> compare_verdicts(LogView& log, const std::string& promotion, Expected& expected) {
  auto rows = TRY(store::list_promotion_verdicts(log.reader(), promotion));
  const auto named = [&](const VerdictKey& key) {
    const auto& [stage, attempt, clause, slice] = key;
    return fmt::format("verdict of {}{}{} in {}", clause, slice.empty() ? "" : " on ", slice,
                       attempt_text(promotion, {stage, attempt}));
  };
  for (const auto& row : rows) {
    const VerdictKey key{row.stage.stage, row.stage.attempt, row.clause, row.slice};
    const auto found = expected.verdicts.find(key);
    if (found == expected.verdicts.end()) {
      log.findings().add(named(key), "it is in the table, but the log does not have it");
      continue;
    }
    const auto& entry = found->second;
    RowCheck check(log.findings(), named(key), entry);
    check.member("the verdict", row.verdict, "verdict");
    check.column("its entry", row.evidence_seq, entry.seq);
    compare_detail(log.findings(), named(key), row, entry);
    expected.verdicts.erase(found);
  }
  for (const auto& [key, entry] : expected.verdicts)
    log.findings().add(named(key), fmt::format("it is not in the table, but {} reached it", entry.name()));
  return {};
}

/// A decision must not be dated later than its entry.
void compare_given(Findings& findings, const std::string& where, std::int64_t given_us, const LogEntry& entry) {
  if (given_us > entry.time_us)
    findings.add(where, fmt::format("it was given at {} by the table, which is after {}", given_us, entry.name()));
}

Result<void> compare_approvals(LogView& log, const std::string& promotion, Expected& expected) {
  auto rows = TRY(store::list_approvals(log.reader(), promotion));
  auto& findings = log.findings();
  for (const auto& row : rows) {
    const auto where = fmt::format("approval {} of {}", row.id, promotion);
    const auto found = expected.approvals.find(
        {row.stage.stage, row.stage.attempt, row.step, row.who, row.evidence_digest});
    if (found == expected.approvals.end()) {
      findings.add(where, fmt::format("it is in the table as given by '{}' for step {}, but the log does not have it",
                                      row.who, row.step));
      continue;
    }
    RowCheck check(findings, where, found->second);
    check.member("the id", row.id, "approval");
    check.member("the decision", store::to_string(row.decision), "decision");
    check.member("the reason", row.reason, "reason");
    compare_given(findings, where, row.given_us, found->second);
    expected.approvals.erase(found);
  }
  for (const auto& [key, entry] : expected.approvals)
    findings.add(fmt::format("approval {} of {}", text_at(entry.body, "approval"), promotion),
                 fmt::format("it is not in the table, but {} gave it", entry.name()));
  return {};
}

Result<void> compare_waivers(LogView& log, const std::string& promotion, Expected& expected) {
  auto rows = TRY(store::list_waivers(log.reader(), promotion));
  auto& findings = log.findings();
  for (const auto& row : rows) {
    const auto where = fmt::format("waiver {} of {}", row.id, promotion);
    const auto found = expected.waivers.find(row.id);
    if (found == expected.waivers.end()) {
      findings.add(where, fmt::format("it is in the table as given by '{}' for {}, but the log does not have it",
                                      row.who, row.clause));
      continue;
    }
    const auto& entry = found->second;
    const auto [stage, attempt] = attempt_of(entry);
    RowCheck check(findings, where, entry);
    check.column("the stage", row.stage.stage, stage);
    check.column("the attempt", row.stage.attempt, attempt);
    check.column("who gave it", row.who, entry.actor);
    check.member("the clause", row.clause, "clause");
    check.member("the evidence", row.evidence_digest, "evidence_digest");
    check.member("the reason", row.reason, "reason");
    compare_given(findings, where, row.given_us, entry);
    expected.waivers.erase(found);
  }
  for (const auto& [id, entry] : expected.waivers)
    findings.add(fmt::format("waiver {} of {}", id, promotion),
                 fmt::format("it is not in the table, but {} gave it", entry.name()));
  return {};
}

}  // namespace

Result<void> check_promotion_parts(LogView& log, const std::string& promotion) {
  const EntryFilter filter{.promotion = promotion,
                           .kinds = {EvidenceKind::state_changed, EvidenceKind::verdict_reached,
                                     EvidenceKind::approval_given, EvidenceKind::waiver_given}};
  Expected expected;
  TRY(log.each(filter, [&](const LogEntry& entry) {
    expected.add(entry);
    return true;
  }));
  TRY(compare_runs(log, promotion, expected));
  TRY(compare_verdicts(log, promotion, expected));
  TRY(compare_approvals(log, promotion, expected));
  return compare_waivers(log, promotion, expected);
}

}  // namespace driftgate::evidence::tables
