#include "daemon/pipeline/read/shown.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "daemon/pipeline/read/standing.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {

using nlohmann::json;

namespace {

/// Why it waits for a decision: a state that is left and reached again for another reason is another one.
std::string reason_shown(const store::PromotionRow& row) {
  const bool told =
      row.state == store::PromotionState::paused || row.state == store::PromotionState::inconclusive;
  return told ? row.reason : std::string();
}

}  // namespace

std::string evidence_shown(const PromotionFacts& facts) {
  const auto& row = facts.row;
  const auto* const run = facts.newest();
  // The verdicts that did not pass beside the number of those that did tell every change of one.
  json verdicts = json::array();
  for (const auto& verdict : facts.not_passed)
    verdicts.push_back(json::array({verdict.clause, verdict.slice, verdict.verdict}));
  const json shown{{"promotion", row.id},
                   {"state", store::to_string(row.state)},
                   {"stage", row.stage},
                   {"attempt", row.attempt},
                   {"step", run != nullptr ? run->row.step : 0},
                   {"reason", reason_shown(row)},
                   {"traffic", store::to_string(row.traffic)},
                   {"share_bp", run != nullptr ? run->progress.share_bp : 0},
                   {"frozen", run != nullptr && run->progress.frozen},
                   {"report", run != nullptr ? run->row.report : std::string()},
                   {"passed", run != nullptr && run->counts.contains("pass") ? run->counts.at("pass") : 0},
                   {"not_passed", std::move(verdicts)},
                   {"approval", run != nullptr ? run->progress.approval_digest : std::string()}};
  return schema::sha256_digest(schema::canonical_json(shown));
}

std::string shown_text(const PromotionFacts& facts) {
  const auto& row = facts.row;
  std::string text(store::to_string(row.state));
  if (!row.stage.empty()) text += fmt::format(" in {} (attempt {})", row.stage, row.attempt);
  const auto* const canary = facts.canary();
  if (canary != nullptr) text += fmt::format(" at step {}", canary->row.step + 1);
  if (canary != nullptr && canary->progress.frozen) text += ", frozen";
  text += fmt::format(", with {:.4g}% of the traffic", facts.share_bp / 100.0);
  const bool goes_on = !store::is_terminal(row.state) && row.state != store::PromotionState::rolling_back;
  if (canary != nullptr && goes_on && canary->progress.share_bp != facts.share_bp)
    text += fmt::format(" ({:.4g}% is wanted)", canary->progress.share_bp / 100.0);
  const auto reason = reason_shown(row);
  return reason.empty() ? text : text + fmt::format(" (the reason: {})", sentence(reason));
}

void ShownBook::note(const PromotionFacts& facts) {
  auto digest = evidence_shown(facts);
  auto text = shown_text(facts);
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = texts_.insert_or_assign(digest, std::move(text));
  if (!is_new) return;
  order_.push_back(std::move(digest));
  if (order_.size() <= kMaxRemembered) return;
  texts_.erase(order_.front());
  order_.pop_front();
}

std::optional<std::string> ShownBook::text_of(const std::string& digest) const {
  const std::lock_guard lock(mutex_);
  const auto found = texts_.find(digest);
  return found == texts_.end() ? std::nullopt : std::optional(found->second);
}

schema::Result<void> check_shown(const PromotionFacts& facts, const std::string& shown,
                                 const ShownBook& book) {
  if (shown.empty() || shown == evidence_shown(facts)) return {};
  const auto before = book.text_of(shown);
  const auto now = shown_text(facts);
  std::string change =
      before ? fmt::format("it was {}, now it is {}", *before, now) : fmt::format("now it is {}", now);
  if (before && *before == now) change += "; its verdicts or the evidence to approve are others";
  return schema::fail(
      schema::ErrorCode::conflict,
      fmt::format("promotion {} has changed since it was read: {}. Read it again and decide anew",
                  facts.row.id, change),
      "/evidence_digest");
}

}  // namespace driftgate::pipeline
