#include <fmt/format.h>

#include <algorithm>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/people/quorum.hpp"
#include "schema/names.hpp"

namespace driftgate::pipeline {

using schema::ErrorCode;
using schema::EvidenceKind;
using store::PromotionState;

/// Who asked may not decide. That somebody tried is itself evidence.
schema::Result<void> Core::refuse_own(const Live& live, const std::string& actor, EvidenceKind kind,
                                      schema::EntryValue::Object body) {
  auto own = world_.store.read([&](store::Reader& reader) { return asked_for(reader, live.row, actor); });
  if (!own) return std::unexpected(own.error());
  if (!*own) return {};
  body["decision"] = "refused_self";
  body["people_rule"] = schema::kPeopleByIdentity;
  auto noted = commit("refuse own decision", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto seq = entries.add(tx, draft(live, kind, actor, body));
    if (!seq) return std::unexpected(seq.error());
    return {};
  });
  if (!noted) return noted;
  return schema::fail(
      ErrorCode::forbidden,
      fmt::format("{} asked for promotion {} and may not {} it; another person must. That it "
                  "was tried is recorded",
                  actor, live.row.id, kind == EvidenceKind::waiver_given ? "waive a clause of" : "approve"));
}

/// The approvals of the step that waits which count now.
schema::Result<std::vector<store::ApprovalRow>> Core::approvals_of(const Live& live) {
  auto all =
      world_.store.read([&](store::Reader& reader) { return store::list_approvals(reader, live.row.id); });
  if (!all) return all;
  return counted_approvals(*all, live.run, live.progress.approval_digest,
                           quorum_of(*live.contract, live.run.step), now());
}

schema::Result<bool> Core::is_approved(const Live& live) {
  if (live.progress.approval_digest.empty()) return false;
  auto given = approvals_of(live);
  if (!given) return std::unexpected(given.error());
  return given->size() >= quorum_of(*live.contract, live.run.step).needed;
}

/// One person's approval; with the last one that the step needs, the promotion goes on.
schema::Result<void> Core::approve(const std::string& actor, const std::string& id, const std::string& digest,
                                   const std::string& reason) {
  auto found = get_live(id);
  if (!found) return std::unexpected(found.error());
  auto& live = **found;
  if (live.row.state != PromotionState::awaiting_approval) {
    return schema::fail(ErrorCode::conflict, fmt::format("promotion {} waits for no approval: it is {}", id,
                                                         store::to_string(live.row.state)));
  }
  const auto& wanted = live.progress.approval_digest;
  schema::EntryValue::Object body{{"step", live.run.step}, {"evidence_digest", wanted}, {"reason", reason}};
  auto other = refuse_own(live, actor, EvidenceKind::approval_given, body);
  if (!other) return other;
  if (digest != wanted) {
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("the evidence is {} now, not {}: read it again and approve that", wanted, digest));
  }
  auto given = approvals_of(live);
  if (!given) return std::unexpected(given.error());
  const auto needed = quorum_of(*live.contract, live.run.step).needed;
  if (std::ranges::any_of(*given, [&](const auto& one) { return schema::is_same_identity(one.who, actor); })) {
    return schema::fail(ErrorCode::conflict,
                        fmt::format("{} has approved this step already; {} of {} people have, another must",
                                    actor, given->size(), needed));
  }
  const store::ApprovalRow approval{.id = new_id("ap"),
                                    .stage = live.run.key,
                                    .step = live.run.step,
                                    .who = actor,
                                    .evidence_digest = digest,
                                    .reason = reason,
                                    .given_us = now()};
  const auto count = given->size() + 1;
  body["approval"] = approval.id;
  body["decision"] = store::to_string(approval.decision);
  body["people_rule"] = schema::kPeopleByIdentity;
  body["given"] = count;
  body["needed"] = needed;
  return record_approval(live, approval, std::move(body), count >= needed);
}

schema::Result<void> Core::record_approval(Live& live, const store::ApprovalRow& approval,
                                           schema::EntryValue::Object body, bool enough) {
  auto row = live.row;
  if (enough) {
    row.state = PromotionState::running;
    row.deadline_us.reset();
    row.reason = fmt::format("step {} was approved by {}", approval.step + 1, approval.who);
  } else {
    row.reason = fmt::format("step {} has {} of {} approvals", approval.step + 1, *body["given"].integer(),
                             *body["needed"].integer());
  }
  auto done = commit("approve", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto put = store::put_approval(tx, approval);
    if (!put) return put;
    auto seq = entries.add(tx, draft(live, EvidenceKind::approval_given, approval.who, body));
    if (!seq) return std::unexpected(seq.error());
    if (enough) return record_state(tx, entries, live, row, live.run, approval.who);
    return touch(tx, row, *seq);
  });
  if (!done) return done;
  live.row = row;
  if (enough && live.canary && live.retry_at_us == 0) (void)decide_canary(live, {});
  return {};
}

}  // namespace driftgate::pipeline
