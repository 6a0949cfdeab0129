#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "daemon/pipeline/machine/lifecycle.hpp"
#include "daemon/pipeline/people/people.hpp"
#include "daemon/pipeline/people/quorum.hpp"
#include "daemon/store/look_up.hpp"
#include "schema/names.hpp"

namespace driftgate::pipeline::people {
namespace {

using schema::ErrorCode;
using schema::EvidenceKind;
using store::PromotionState;

/// Why a promotion in this state has nothing to waive.
std::string nothing_to_waive(const store::PromotionRow& row) {
  switch (row.state) {
    case PromotionState::rejected:
      return fmt::format("promotion {} was rejected: a violated clause cannot be waived", row.id);
    case PromotionState::errored:
      return fmt::format(
          "promotion {} ended in an error: what could not be measured cannot be waived; ask for a new one",
          row.id);
    default:
      return fmt::format("promotion {} is {}; only an inconclusive one has clauses to waive", row.id,
                         store::to_string(row.state));
  }
}

std::string names_of(const std::vector<OpenClause>& open) {
  return open.empty() ? "none"
                      : fmt::format("{}", fmt::join(open | std::views::transform(&OpenClause::clause), ", "));
}

/// "numerical.kl by ada and bob; …"
std::string waived_text(const std::vector<OpenClause>& open) {
  const auto waived = [](const OpenClause& clause) {
    return fmt::format("{} by {}", clause.clause,
                       fmt::join(clause.given | std::views::transform(&store::WaiverRow::who), " and "));
  };
  return fmt::format("{}", fmt::join(open | std::views::transform(waived), "; "));
}

/// The inconclusive promotion whose evidence is `digest`, or why there is nothing to waive.
schema::Result<Live*> waivable(Context& context, const std::string& id, const std::string& digest) {
  auto* live = context.lookup(id);
  if (live == nullptr || live->row.state != PromotionState::inconclusive) {
    auto row = TRY(look_up(context.world.store, store::get_promotion, id));
    return schema::fail(ErrorCode::conflict, nothing_to_waive(row));
  }
  if (live->run.key.stage == schema::to_string(schema::Stage::canary)) {
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("the canary of promotion {} went back to 0% traffic undecided: resume it for "
                    "another attempt; a waiver would give it all users at once",
                    id));
  }
  if (digest != live->run.report) {
    return schema::fail(ErrorCode::conflict,
                        fmt::format("the evidence is {} now, not {}: read it again and waive that",
                                    live->run.report, digest));
  }
  return live;
}

/// The waiver with its entry; with the last one that the stage needs, the next stage begins. `open` has it
/// already.
Change waiver_change(const Facts& facts, const store::WaiverRow& waiver, schema::EntryValue::Object body,
                     const std::vector<OpenClause>& open) {
  const bool enough = std::ranges::all_of(open, &OpenClause::is_waived);
  Change change{.name = "waive", .actor = waiver.who, .row = facts.live.row, .state_entry = enough};
  const auto& stage = facts.live.run.key.stage;
  if (enough) {
    machine::go_to_stage(change, facts, machine::stage_after(*schema::stage_from_name(stage)), 1);
    change.row->deadline_us.reset();
    change.row->outcome.clear();
    change.row->reason = fmt::format("{} is inconclusive and was waived: {}", stage, waived_text(open));
  } else {
    change.row->reason =
        fmt::format("{} has {} of {} waivers", waiver.clause, *body["given"].integer(), kWaiversNeeded);
  }
  change.rows.emplace_back([waiver](store::Tx& tx, Entries&) { return store::insert_waiver(tx, waiver); });
  change.entries.push_back(draft(facts, EvidenceKind::waiver_given, waiver.who, std::move(body)));
  return change;
}

}  // namespace

Done waive(Context& context, const std::string& actor, const std::string& id, const std::string& clause,
           const std::string& digest, const std::string& reason) {
  auto found = TRY(waivable(context, id, digest));
  auto& live = *found;
  auto open = TRY(look_up(context.world.store, open_clauses, live.run));
  const auto at = std::ranges::find(open, clause, &OpenClause::clause);
  if (at == open.end()) {
    return schema::fail(
        ErrorCode::not_found,
        fmt::format("{} is not a clause that keeps {} from passing; the inconclusive clauses are: {}", clause,
                    live.run.key.stage, names_of(open)),
        "/clause");
  }
  schema::EntryValue::Object body{{"clause", clause}, {"evidence_digest", digest}, {"reason", reason}};
  TRY(refuse_own(context, live, actor, EvidenceKind::waiver_given, body));
  if (std::ranges::any_of(at->given,
                          [&](const auto& one) { return schema::is_same_identity(one.who, actor); })) {
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("{} has waived {} already: another person must confirm it", actor, clause));
  }
  const store::WaiverRow waiver{.id = context.new_id("wv"),
                                .stage = live.run.key,
                                .clause = clause,
                                .who = actor,
                                .evidence_digest = digest,
                                .reason = reason,
                                .given_us = context.now()};
  at->given.push_back(waiver);
  body["waiver"] = waiver.id;
  body["decision"] = store::to_string(store::Decision::waive);
  body["people_rule"] = schema::kPeopleByIdentity;
  body["given"] = at->given.size();
  body["needed"] = kWaiversNeeded;
  auto change = waiver_change(context.facts(live), waiver, std::move(body), open);
  change.answers = true;
  return context.commit_change(live, std::move(change));
}

schema::Result<std::vector<std::string>> waived_clauses(Context& context, const Live& live) {
  return context.world.store.read([&](store::Reader& reader) -> schema::Result<std::vector<std::string>> {
    auto runs = TRY(store::list_stage_runs(reader, live.row.id));
    std::vector<std::string> clauses;
    std::set<std::string> settled;
    // The newest attempt of a stage is the one that was waived.
    for (const auto& run : std::views::reverse(runs)) {
      if (!settled.insert(run.key.stage).second || run.state != store::StageRunState::inconclusive) continue;
      auto open = TRY(open_clauses(reader, run));
      for (const auto& clause : open) clauses.push_back(clause.clause);
    }
    return clauses;
  });
}

}  // namespace driftgate::pipeline::people
