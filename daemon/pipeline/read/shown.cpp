#include "daemon/pipeline/read/shown.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {

using nlohmann::json;

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
                   {"traffic", store::to_string(row.traffic)},
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
  if (const auto* const canary = facts.canary()) text += fmt::format(" at step {}", canary->row.step + 1);
  return text + fmt::format(", with {:.4g}% of the traffic", facts.share_bp / 100.0);
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
