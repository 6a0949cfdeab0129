#include "daemon/pipeline/figures/live_figures.hpp"

#include <algorithm>

#include "daemon/base/entry_members.hpp"
#include "daemon/store/states.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::pipeline {
namespace {

using schema::EvidenceKind;

constexpr std::string_view kGuard = "guard";

bool is_end(std::string_view state) {
  const auto parsed = store::parse_state<store::PromotionState>(state);
  return parsed && store::is_terminal(*parsed);
}

/// Traffic that was live went back: a candidate's share, or all of a version that had succeeded.
bool is_rollback(const schema::EntryDraft& entry) {
  return is_end(base::text_at(entry.body, "to")) && base::text_at(entry.body, "traffic") == "reverted";
}

}  // namespace

/// Null for a model that is not shown.
ModelFigures* LiveFigures::of(std::string_view model) {
  const auto found = models_.find(model);
  return found == models_.end() ? nullptr : &found->second;
}

void LiveFigures::note_state(const schema::EntryDraft& entry) {
  const auto to = base::text_at(entry.body, "to");
  if (base::text_at(entry.body, "from") != to && is_end(to)) counted_.ended[to] += 1;
  if (!is_rollback(entry)) return;
  counted_.rollbacks += 1;
  if (auto* const model = of(entry.subject.model.value_or(""))) model->rollbacks += 1;
}

void LiveFigures::note(const Event& event) {
  const auto kind = schema::parse_evidence_kind(event.kind);
  if (!kind) return;
  const bool read = *kind == EvidenceKind::state_changed || *kind == EvidenceKind::verdict_reached ||
                    *kind == EvidenceKind::guard_alarmed || *kind == EvidenceKind::schedule_skipped;
  const auto entry = read ? schema::decode_entry(event.json) : schema::Result<schema::Entry>{};
  const std::lock_guard lock(mutex_);
  counted_.entries[event.kind] += 1;
  if (!read || !entry) return;
  const auto& draft = entry->draft;
  if (*kind == EvidenceKind::state_changed) {
    note_state(draft);
  } else if (*kind == EvidenceKind::verdict_reached) {
    const bool of_clause = draft.body.contains("clause");
    if (of_clause)
      counted_.verdicts[{draft.subject.stage.value_or(""), base::text_at(draft.body, "verdict")}] += 1;
  } else if (*kind == EvidenceKind::schedule_skipped) {
    counted_.skipped[base::text_at(draft.body, "why")] += 1;
  } else if (base::text_at(draft.body, "state") == "raised") {
    counted_.alarms += 1;
    if (auto* const model = of(event.model)) model->alarms += 1;
  }
}

void LiveFigures::decided(std::string_view model, std::shared_ptr<const DecisionFigures> figures) {
  const std::lock_guard lock(mutex_);
  auto* const known = of(model);
  if (known == nullptr) return;
  (figures->stage == kGuard ? known->guard : known->decision) = std::move(figures);
}

void LiveFigures::served(const route::Window& window) {
  const std::lock_guard lock(mutex_);
  auto* const known = of(window.model);
  if (known == nullptr) return;
  for (const auto& seen : window.observations) {
    auto& arm = known->arms.at(seen.candidate ? 1 : 0);
    auto& count = seen.outcome == route::Outcome::ok       ? arm.ok
                  : seen.outcome == route::Outcome::failed ? arm.failed
                                                           : arm.excluded;
    count += 1;
    if (seen.outcome != route::Outcome::ok) continue;
    arm.first_token.add(seen.ttft_ms);
    arm.total.add(seen.total_ms);
  }
}

void LiveFigures::stand(std::vector<ModelStanding> models, const ServiceFigures& loop, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  loop_ = loop;
  counted_.seen_us = now_us;
  counted_.models_left_out = 0;
  for (auto& standing : models) {
    auto* known = of(standing.model);
    if (known == nullptr && models_.size() < kMaxFigureModels) known = &models_[standing.model];
    if (known == nullptr)
      counted_.models_left_out += 1;
    else
      known->standing = std::move(standing);
  }
}

LiveSnapshot LiveFigures::snapshot() const {
  const std::lock_guard lock(mutex_);
  LiveSnapshot copy = counted_;
  copy.models.reserve(models_.size());
  for (const auto& [name, model] : models_) copy.models.push_back(model);
  return copy;
}

ServiceFigures LiveFigures::loop() const {
  const std::lock_guard lock(mutex_);
  return loop_;
}

}  // namespace driftgate::pipeline
