#include "daemon/evidence/audit/served_route.hpp"

#include <utility>

#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/store/states.hpp"

namespace driftgate::evidence {

using nlohmann::json;
using schema::EvidenceKind;
using store::Reader;

namespace {

constexpr std::int64_t kFullShareBp = 10'000;

std::int64_t seq_of(const json& entry) {
  return entry.value("seq", std::int64_t{-1});
}

}  // namespace

std::vector<ServedArm> arms_of(const json& route) {
  const bool all_to_fallback = route.value("all_to_fallback", false);
  const std::int64_t candidate_bp = all_to_fallback ? 0 : route.value("candidate_bp", std::int64_t{0});
  std::vector<ServedArm> arms{
      {"incumbent", object_at(route, "incumbent"), all_to_fallback ? 0 : kFullShareBp - candidate_bp}};
  const json candidate = object_at(route, "candidate");
  if (!candidate.empty()) arms.push_back({"candidate", candidate, candidate_bp});
  const json fallback = object_at(route, "fallback");
  if (!fallback.empty()) arms.push_back({"fallback", fallback, all_to_fallback ? kFullShareBp : 0});
  return arms;
}

bool serves(const json& route, const std::string& version) {
  for (const ServedArm& arm : arms_of(route)) {
    if (text_at(arm.version, "version") != version) continue;
    if (arm.share_bp > 0) return true;
    const auto slices = route.find("slices");
    if (slices == route.end() || !slices->is_array()) continue;
    for (const json& slice : *slices) {
      const bool to_fallback = slice.value("to_fallback", false);
      if (arm.role == "fallback" && to_fallback) return true;
      if (arm.role == "candidate" && !to_fallback && slice.value("candidate_bp", 0) > 0) return true;
    }
  }
  return false;
}

Result<json> ServingLeave::request_of(const std::string& promotion) {
  if (promotion.empty()) return json();
  auto entry = TRY(first_json(reader_, {.promotion = promotion, .kind = EvidenceKind::promotion_requested}));
  if (text_at(object_at(entry, "subject"), "model") != model_) return json();
  return entry;
}

/// What a change of state in the canary does to who is the incumbent.
Result<void> ServingLeave::note_change(const json& change) {
  const json body = object_at(change, "body");
  const auto from = text_at(body, "from");
  const auto to = text_at(body, "to");
  const auto promotion = text_at(object_at(change, "subject"), "promotion");
  if (to == "finalizing" && from != to) {
    auto request = TRY(request_of(promotion));
    if (!incumbents_.empty()) before_[promotion] = incumbents_.back();
    incumbents_.push_back({seq_of(change), text_at(object_at(request, "body"), "candidate"), promotion});
  } else if ((from == "finalizing" && to != "succeeded") || (from == "succeeded" && to == from)) {
    const auto before = before_.find(promotion);
    if (before != before_.end()) incumbents_.push_back({seq_of(change), before->second.version, ""});
  }
  return {};
}

Result<void> ServingLeave::read_incumbents() {
  if (std::exchange(read_, true)) return {};
  EntryFilter filter{.model = model_, .kind = EvidenceKind::model_bootstrapped, .limit = kMaxPage};
  TRY(each_json(reader_, filter, [&](const json& entry) {
    incumbents_.push_back({seq_of(entry), text_at(object_at(entry, "body"), "version"), ""});
    return true;
  }));
  filter.kind = EvidenceKind::state_changed;
  filter.stage = "canary";
  return each_json(reader_, filter, [&](const json& entry) -> Result<bool> {
    TRY(note_change(entry));
    return true;
  });
}

const ServingLeave::Incumbent* ServingLeave::incumbent_at(std::int64_t seq) const {
  const Incumbent* found = nullptr;
  for (const Incumbent& incumbent : incumbents_) {
    if (incumbent.since < seq) found = &incumbent;
  }
  return found;
}

Result<bool> ServingLeave::is_under_way(const std::string& promotion, std::int64_t seq) {
  const auto entry = TRY(first_json(
      reader_,
      {.promotion = promotion, .kind = EvidenceKind::state_changed, .newest_first = true, .cursor = seq}));
  const auto state = store::parse_state<store::PromotionState>(text_at(object_at(entry, "body"), "to"));
  return state && store::holds_model(*state);
}

Result<bool> ServingLeave::has_leave(const ServedArm& arm, const json& route, std::int64_t seq) {
  const auto version = text_at(arm.version, "version");
  const Incumbent* incumbent = incumbent_at(seq);
  if (arm.role == "incumbent") return incumbent != nullptr && incumbent->version == version;
  auto promotion = text_at(route, "stage_key");
  promotion = promotion.substr(0, promotion.find('/'));
  // What the ladder routed away stays so after the promotion's end.
  if (promotion.empty() && arm.role == "fallback" && incumbent != nullptr) promotion = incumbent->promotion;
  auto request = TRY(request_of(promotion));
  if (!request.is_object() || seq_of(request) >= seq) return false;
  const json body = object_at(request, "body");
  if (arm.role == "fallback") return text_at(object_at(body, "fallback"), "version") == version;
  if (text_at(body, "candidate") != version) return false;
  return is_under_way(promotion, seq);
}

Result<std::vector<ServedArm>> ServingLeave::without_leave(const json& applied) {
  TRY(read_incumbents());
  const json route = object_at(object_at(applied, "body"), "route");
  std::vector<ServedArm> found;
  for (const ServedArm& arm : arms_of(route)) {
    if (!serves(route, text_at(arm.version, "version"))) continue;
    auto leave = TRY(has_leave(arm, route, seq_of(applied)));
    if (!leave) found.push_back(arm);
  }
  return found;
}

Result<std::vector<ServedArm>> ServingLeaves::without_leave(const json& applied) {
  const auto model = text_at(object_at(applied, "subject"), "model");
  return models_.try_emplace(model, reader_, model).first->second.without_leave(applied);
}

}  // namespace driftgate::evidence
