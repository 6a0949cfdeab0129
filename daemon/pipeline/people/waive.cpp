#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/people/quorum.hpp"
#include "schema/names.hpp"

namespace driftgate::pipeline {
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
  std::string names;
  for (const auto& clause : open) names += (names.empty() ? "" : ", ") + clause.clause;
  return names.empty() ? "none" : names;
}

/// "numerical.kl by ada and bob; …"
std::string waived_text(const std::vector<OpenClause>& open) {
  std::string text;
  for (const auto& clause : open) {
    text += (text.empty() ? "" : "; ") + clause.clause + " by ";
    for (std::size_t i = 0; i < clause.given.size(); ++i)
      text += (i == 0 ? "" : " and ") + clause.given[i].who;
  }
  return text;
}

}  // namespace

/// The inconclusive promotion whose evidence is `digest`, or why there is nothing to waive.
schema::Result<Live*> Core::waivable(const std::string& id, const std::string& digest) {
  auto* live = find(id);
  if (live == nullptr || live->row.state != PromotionState::inconclusive) {
    auto row = world_.store.read([&](store::Reader& reader) { return store::get_promotion(reader, id); });
    if (!row) return std::unexpected(row.error());
    return schema::fail(ErrorCode::conflict, nothing_to_waive(*row));
  }
  if (live->run.key.stage == schema::to_string(schema::Stage::canary)) {
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("the canary of promotion {} went back to weight 0 undecided: resume it for "
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

/// One person's waiver of one clause; with the last that the stage needs, the promotion goes past the stage,
/// whose verdict stays inconclusive.
schema::Result<void> Core::waive(const std::string& actor, const std::string& id, const std::string& clause,
                                 const std::string& digest, const std::string& reason) {
  auto found = waivable(id, digest);
  if (!found) return std::unexpected(found.error());
  auto& live = **found;
  auto open = world_.store.read([&](store::Reader& reader) { return open_clauses(reader, live.run); });
  if (!open) return std::unexpected(open.error());
  const auto at = std::ranges::find(*open, clause, &OpenClause::clause);
  if (at == open->end()) {
    return schema::fail(ErrorCode::not_found,
                        fmt::format("{} is no clause that keeps {} from passing; inconclusive are: {}",
                                    clause, live.run.key.stage, names_of(*open)),
                        "/clause");
  }
  schema::EntryValue::Object body{{"clause", clause}, {"evidence_digest", digest}, {"reason", reason}};
  auto other = refuse_own(live, actor, EvidenceKind::waiver_given, body);
  if (!other) return other;
  if (std::ranges::any_of(at->given, [&](const auto& one) { return schema::is_same_identity(one.who, actor); })) {
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("{} has waived {} already: another person must confirm it", actor, clause));
  }
  const store::WaiverRow waiver{.id = new_id("wv"),
                                .stage = live.run.key,
                                .clause = clause,
                                .who = actor,
                                .evidence_digest = digest,
                                .reason = reason,
                                .given_us = now()};
  at->given.push_back(waiver);
  body["waiver"] = waiver.id;
  body["decision"] = store::to_string(store::Decision::waive);
  body["people_rule"] = schema::kPeopleByIdentity;
  body["given"] = at->given.size();
  body["needed"] = kWaiversNeeded;
  if (std::ranges::all_of(*open, &OpenClause::is_waived))
    return pass_waived(live, waiver, std::move(body), waived_text(*open));
  auto row = live.row;
  row.reason = fmt::format("{} has {} of {} waivers", clause, at->given.size(), kWaiversNeeded);
  auto done = commit("waive", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto seq = add_waiver(tx, entries, live, waiver, body);
    if (!seq) return std::unexpected(seq.error());
    return touch(tx, row, *seq);
  });
  if (done) live.row = row;
  return done;
}

schema::Result<std::int64_t> Core::add_waiver(store::Tx& tx, Entries& entries, const Live& live,
                                              const store::WaiverRow& waiver,
                                              const schema::EntryValue::Object& body) const {
  auto inserted = store::insert_waiver(tx, waiver);
  if (!inserted) return std::unexpected(inserted.error());
  return entries.add(tx, draft(live, EvidenceKind::waiver_given, waiver.who, body));
}

schema::Result<std::vector<std::string>> Core::waived_clauses(const Live& live) {
  auto given = world_.store.read([&](store::Reader& reader) -> schema::Result<std::vector<std::string>> {
    auto runs = store::list_stage_runs(reader, live.row.id);
    if (!runs) return std::unexpected(runs.error());
    std::vector<std::string> clauses;
    std::set<std::string> settled;
    // The newest attempt of a stage is the one that was gone past.
    for (const auto& run : std::views::reverse(*runs)) {
      if (!settled.insert(run.key.stage).second || run.state != store::StageRunState::inconclusive) continue;
      auto open = open_clauses(reader, run);
      if (!open) return std::unexpected(open.error());
      for (const auto& clause : *open) clauses.push_back(clause.clause);
    }
    return clauses;
  });
  return given;
}

/// Every open clause is waived: the next stage begins.
schema::Result<void> Core::pass_waived(Live& live, const store::WaiverRow& waiver,
                                       schema::EntryValue::Object body, const std::string& who) {
  auto row = live.row;
  auto next = store::StageRunRow{};
  next.key.promotion = row.id;
  const auto stage = *schema::stage_from_name(live.run.key.stage);
  begin_stage(next, static_cast<schema::Stage>(static_cast<int>(stage) + 1), 1);
  row.state = PromotionState::running;
  row.stage = next.key.stage;
  row.attempt = 1;
  row.deadline_us.reset();
  row.outcome.clear();
  row.reason = fmt::format("{} is inconclusive and was waived: {}", live.run.key.stage, who);
  auto done = commit("waive", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto seq = add_waiver(tx, entries, live, waiver, body);
    if (!seq) return std::unexpected(seq.error());
    auto inserted = store::insert_stage_run(tx, next);
    if (!inserted) return inserted;
    return record_state(tx, entries, live, row, next, waiver.who);
  });
  if (!done) return done;
  auto loaded = load(live, row);
  if (!loaded) {
    stumble(live, loaded.error());
    return {};
  }
  enter_stage(live);
  return {};
}

}  // namespace driftgate::pipeline
