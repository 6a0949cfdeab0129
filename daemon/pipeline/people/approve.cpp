#include <fmt/format.h>

#include <algorithm>

#include "daemon/pipeline/people/people.hpp"
#include "daemon/pipeline/people/quorum.hpp"
#include "daemon/store/look_up.hpp"
#include "schema/names.hpp"

namespace driftgate::pipeline {
namespace {

/// The approvals of the step that waits which count now.
schema::Result<std::vector<store::ApprovalRow>> approvals_of(Context& context, const Live& live) {
  auto all = TRY(look_up(context.world.store, store::list_approvals, live.row.id));
  return counted_approvals(all, live.run, live.progress.approval_digest,
                           quorum_of(*live.contract, live.run.step), context.now());
}

}  // namespace

schema::Result<bool> is_approved(Context& context, const Live& live) {
  if (live.progress.approval_digest.empty()) return false;
  auto given = TRY(approvals_of(context, live));
  return given.size() >= quorum_of(*live.contract, live.run.step).needed;
}

}  // namespace driftgate::pipeline

namespace driftgate::pipeline::people {

using schema::ErrorCode;
using schema::EvidenceKind;
using store::PromotionState;

namespace {

/// The approval with its entry; `enough`: it is the last that the step needs.
Change approval_change(const Facts& facts, const store::ApprovalRow& approval,
                       schema::EntryValue::Object body, bool enough) {
  Change change{.name = "approve", .actor = approval.who, .row = facts.live.row, .state_entry = enough};
  if (enough) {
    change.row->state = PromotionState::running;
    change.row->deadline_us.reset();
    change.row->reason = fmt::format("step {} was approved by {}", approval.step + 1, approval.who);
    change.effects.emplace_back(DecideCanary{facts.live.row.id});
  } else {
    change.row->reason = fmt::format("step {} has {} of {} approvals", approval.step + 1,
                                     *body["given"].integer(), *body["needed"].integer());
  }
  change.rows.emplace_back([approval](store::Tx& tx, Entries&) { return store::put_approval(tx, approval); });
  change.entries.push_back(draft(facts, EvidenceKind::approval_given, approval.who, std::move(body)));
  return change;
}

}  // namespace

/// Whoever stands behind a promotion may not decide on it. The attempt is itself evidence.
Done refuse_own(Context& context, const Live& live, const std::string& actor, EvidenceKind kind,
                schema::EntryValue::Object body) {
  auto own = TRY(look_up(context.world.store, asked_for, live.row, actor));
  if (!own) return {};
  body["decision"] = "refused_self";
  body["people_rule"] = schema::kPeopleByIdentity;
  TRY(context.commit_entry("refuse own decision", draft(context.facts(live), kind, actor, std::move(body))));
  return schema::fail(
      ErrorCode::forbidden,
      fmt::format("{} {} and may not {} it; another person must. That it was tried is recorded", actor, *own,
                  kind == EvidenceKind::waiver_given ? "waive a clause of" : "approve"));
}

Done approve(Context& context, const std::string& actor, const std::string& id, const std::string& digest,
             const std::string& reason) {
  auto found = TRY(context.open_promotion(id));
  auto& live = *found;
  if (live.row.state != PromotionState::awaiting_approval) {
    return schema::fail(ErrorCode::conflict,
                        fmt::format("promotion {} is not waiting for an approval: it is {}", id,
                                    store::to_string(live.row.state)));
  }
  const auto& wanted = live.progress.approval_digest;
  schema::EntryValue::Object body{{"step", live.run.step}, {"evidence_digest", wanted}, {"reason", reason}};
  TRY(refuse_own(context, live, actor, EvidenceKind::approval_given, body));
  if (digest != wanted) {
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("the evidence is {} now, not {}: read it again and approve that", wanted, digest));
  }
  auto given = TRY(approvals_of(context, live));
  const auto needed = quorum_of(*live.contract, live.run.step).needed;
  if (std::ranges::any_of(given, [&](const auto& one) { return schema::is_same_identity(one.who, actor); })) {
    return schema::fail(ErrorCode::conflict,
                        fmt::format("{} has approved this step already; {} of {} people have, another must",
                                    actor, given.size(), needed));
  }
  const store::ApprovalRow approval{.id = context.new_id("ap"),
                                    .stage = live.run.key,
                                    .step = live.run.step,
                                    .who = actor,
                                    .evidence_digest = digest,
                                    .reason = reason,
                                    .given_us = context.now()};
  const auto count = given.size() + 1;
  body["approval"] = approval.id;
  body["decision"] = store::to_string(approval.decision);
  body["people_rule"] = schema::kPeopleByIdentity;
  body["given"] = count;
  body["needed"] = needed;
  auto change = approval_change(context.facts(live), approval, std::move(body), count >= needed);
  change.answers = true;
  return context.commit_change(live, std::move(change));
}

}  // namespace driftgate::pipeline::people
