#include "daemon/pipeline/people/quorum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/pipeline/requests/request.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "schema/names.hpp"
#include "schema/verdict.hpp"

namespace driftgate::pipeline {

Quorum quorum_of(const schema::Contract& contract, std::int64_t step) {
  if (!contract.canary) return {};
  const auto& steps = contract.canary->steps;
  const auto at = static_cast<std::size_t>(std::max<std::int64_t>(step, 0));
  return {.needed = at < steps.size() ? steps[at].approvals : 1,
          .valid_ms = contract.canary->approval_valid_ms};
}

std::vector<store::ApprovalRow> counted_approvals(std::span<const store::ApprovalRow> all,
                                                  const store::StageRunRow& run, std::string_view digest,
                                                  const Quorum& quorum, std::int64_t now_us) {
  std::vector<store::ApprovalRow> counted;
  if (digest.empty()) return counted;
  for (const auto& approval : all) {
    const bool about = approval.stage == run.key && approval.step == run.step &&
                       approval.evidence_digest == digest && approval.decision == store::Decision::approve;
    if (about && now_us - approval.given_us < quorum.valid_ms * 1'000) counted.push_back(approval);
  }
  std::ranges::sort(counted, {}, &store::ApprovalRow::given_us);
  // The store keeps one for each name; of names that look alike the oldest counts.
  std::set<std::string> people;
  std::erase_if(counted, [&](const auto& approval) {
    return !people.insert(schema::identity_of(approval.who)).second;
  });
  return counted;
}

bool OpenClause::is_waived() const {
  std::set<std::string> people;
  for (const auto& waiver : given) people.insert(schema::identity_of(waiver.who));
  return people.size() >= kWaiversNeeded;
}

schema::Result<std::vector<OpenClause>> open_clauses(store::Reader& reader, const store::StageRunRow& run) {
  auto report = TRY(store::find_blob(reader, run.report));
  auto waivers = TRY(store::list_waivers(reader, run.key.promotion));
  // Of the report, which has every limit of a clause on a line of its own, and is what a waiver names.
  const auto parsed = nlohmann::json::parse(report ? report->bytes : "{}", nullptr, false);
  if (!parsed.is_object())
    return schema::fail(schema::ErrorCode::corrupt, "the report " + run.report + " is not a JSON object");
  std::map<std::string, OpenClause> open;
  for (const auto& item : parsed.value("verdicts", nlohmann::json::array())) {
    const auto verdict = TRY(schema::clause_verdict_from_json(item.dump()));
    // Alone it makes the stage inconclusive: it is hard and blocks.
    if (schema::combine({verdict}, verdict.rules) != schema::Verdict::inconclusive) continue;
    open.try_emplace(verdict.clause, OpenClause{verdict.clause, {}});
  }
  for (auto& waiver : waivers) {
    const auto at = open.find(waiver.clause);
    if (at == open.end() || waiver.stage != run.key || waiver.evidence_digest != run.report) continue;
    at->second.given.push_back(std::move(waiver));
  }
  std::vector<OpenClause> list;
  for (auto& [name, clause] : open) list.push_back(std::move(clause));
  return list;
}

schema::Result<std::optional<std::string>> asked_for(store::Reader& reader,
                                                     const store::PromotionRow& promotion,
                                                     std::string_view actor) {
  if (schema::is_same_identity(promotion.requester, actor))
    return fmt::format("requested promotion {}", promotion.id);
  const auto fire = TRY(store::find_fire_of(reader, promotion.id));
  if (fire && schema::is_same_identity(fire->owner, actor))
    return fmt::format("set the schedule that requested promotion {}", promotion.id);
  const auto request = TRY(parse_promotion_request(promotion.request));
  if (request.recipe && schema::is_same_identity(request.recipe->set_by, actor))
    return fmt::format("set revision {} of the recipe that parts of promotion {} came from ({})",
                       request.recipe->revision, promotion.id, fmt::join(request.recipe->parts, ", "));
  return std::nullopt;
}

}  // namespace driftgate::pipeline
