#include "daemon/cli/live/promotion_picture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "daemon/cli/json_text.hpp"
#include "daemon/cli/live/clause_figures.hpp"
#include "daemon/cli/live/needs.hpp"
#include "daemon/cli/live/text.hpp"

namespace driftgate::cli::live {
namespace {

using nlohmann::json;

constexpr std::array kStages{"offline-numeric", "statistical-slice", "shadow-runtime", "canary"};

/// The newest run of a stage; null when it has none.
const json* newest_run(const json& promotion, std::string_view stage) {
  const json* runs = base::member(promotion, "stages");
  const json* newest = nullptr;
  if (runs != nullptr && runs->is_array())
    for (const json& run : *runs)
      if (base::text_at(run, "stage") == stage) newest = &run;
  return newest;
}

/// "42%", or what is counted where no end is known, "420 pairs".
std::string progress_words(const json& run) {
  const json progress = member_of(run, "progress");
  const auto done = base::integer_at(progress, "done"), total = base::integer_at(progress, "total");
  if (total > 0) return fmt::format("{}%", 100 * done / total);
  const std::string unit = shown(progress, "unit");
  return done > 0 && !unit.empty() ? fmt::format("{} {}", done, unit) : "";
}

StageChip chip_of(const json& promotion, const char* stage) {
  StageChip chip{.name = stage, .word = "not reached", .detail = "", .style = Style::faint};
  const json* run = newest_run(promotion, stage);
  if (run == nullptr) return chip;
  const std::string verdict = shown(*run, "verdict");
  chip.word = verdict.empty() ? shown(*run, "state") : verdict;
  const std::string state = shown(promotion, "state");
  if (chip.word == "running") {
    chip.detail = progress_words(*run);
    if (state == "awaiting_approval" || state == "paused") chip.word = "waiting";
  }
  if (const auto attempt = base::integer_at(*run, "attempt", 1); attempt > 1)
    chip.detail += fmt::format("{}attempt {}", chip.detail.empty() ? "" : ", ", attempt);
  chip.style = style_of_word(chip.word);
  return chip;
}

std::optional<Ramp> ramp_of(const json& promotion, const json& series) {
  const json canary = member_of(promotion, "canary");
  if (!canary.is_object()) return std::nullopt;
  Ramp ramp;
  // As it is applied now, where the daemon tells it; the canary's own is the one that it asked for.
  ramp.share_bp = base::integer_at(promotion, "share_bp", base::integer_at(canary, "share_bp"));
  ramp.steps = base::integer_at(canary, "steps");
  ramp.step = std::min(base::integer_at(canary, "step") + 1, std::max<std::int64_t>(ramp.steps, 1));
  ramp.phase = shown(canary, "phase");
  ramp.frozen = is_true(canary, "frozen");
  ramp.requests = base::integer_at(canary, "exposed_requests");
  ramp.keys = base::integer_at(canary, "exposed_keys");
  ramp.failures = base::integer_at(canary, "failures");
  ramp.incumbent_failures = base::integer_at(canary, "incumbent_failures");
  if (const json planned = member_of(series, "planned"); planned.is_array())
    for (const json& step : planned) ramp.planned_bp.push_back(base::integer_at(step, "share_bp"));
  return ramp;
}

/// Why it stands where it stands: what the daemon says, else what the canary waits for, the reason, the job.
std::vector<std::string> waits_of(const json& promotion) {
  if (std::string why = shown(promotion, "why"); !why.empty()) return {std::move(why)};
  if (std::string reason = shown(promotion, "reason"); !reason.empty()) return {std::move(reason)};
  std::vector<std::string> waits;
  const json canary = member_of(promotion, "canary");
  if (const json reasons = member_of(canary, "waits_for"); reasons.is_array())
    for (const json& reason : reasons) waits.push_back("waits for " + safe_text(plain_text(reason)));
  if (!waits.empty()) return waits;
  const std::string stage = shown(promotion, "stage");
  if (const json* run = newest_run(promotion, stage)) {
    const json progress = member_of(*run, "progress");
    if (std::string text = shown(progress, "text"); !text.empty()) waits.push_back(std::move(text));
  }
  return waits;
}

void name_both(const json& promotion, PromotionPicture& picture) {
  const json candidate = member_of(promotion, "candidate");
  json incumbent = member_of(promotion, "incumbent");
  if (!incumbent.is_object()) incumbent = member_of(promotion, "baseline");
  picture.candidate = shown(candidate, "engine");
  if (picture.candidate.empty()) picture.candidate = shown(promotion, "engine");
  picture.candidate_kernel = shown(candidate, "kernel");
  picture.incumbent = shown(incumbent, "engine");
  picture.incumbent_kernel = shown(incumbent, "kernel");
}

}  // namespace

PromotionPicture picture_of(const json& promotion, const json& series) {
  PromotionPicture picture;
  const std::pair<const char*, std::string PromotionPicture::*> texts[] = {
      {"id", &PromotionPicture::id},
      {"model", &PromotionPicture::model},
      {"state", &PromotionPicture::state},
      {"stage", &PromotionPicture::stage},
      {"contract", &PromotionPicture::contract},
      {"contract_name", &PromotionPicture::contract_name},
      {"requester", &PromotionPicture::requester},
      {"traffic", &PromotionPicture::traffic},
      {"reason", &PromotionPicture::reason},
      {"next", &PromotionPicture::next}};
  for (const auto& [name, into] : texts) picture.*into = shown(promotion, name);
  name_both(promotion, picture);
  picture.attempt = base::integer_at(promotion, "attempt");
  picture.created_us = base::integer_at(promotion, "created_us");
  picture.ended_us = base::integer_at(promotion, "ended_us");
  for (const char* stage : kStages) picture.stages.push_back(chip_of(promotion, stage));
  picture.ramp = ramp_of(promotion, series);
  picture.clauses = clause_figures(promotion, series);
  picture.waits = waits_of(promotion);
  picture.needs = needs_of(promotion);
  return picture;
}

std::string shown(const json& object, const char* member) {
  const json* found = base::member(object, member);
  if (found == nullptr) return {};
  return safe_text(found->is_string() ? found->get<std::string>() : plain_text(*found));
}

std::string state_words(const std::string& state) {
  std::string words = state;
  std::ranges::replace(words, '_', ' ');
  return words;
}

Style style_of_state(const std::string& state) {
  if (state == "succeeded") return Style::good;
  if (state == "rejected" || state == "errored" || state == "rolling_back") return Style::bad;
  if (state == "awaiting_approval" || state == "inconclusive" || state == "paused") return Style::warn;
  if (state == "aborted" || state == "superseded" || state == "expired" || state == "queued")
    return Style::faint;
  return Style::accent;
}

Style style_of_word(const std::string& word) {
  if (word == "pass") return Style::good;
  if (word == "violated" || word == "error") return Style::bad;
  if (word == "inconclusive" || word == "waiting") return Style::warn;
  return word == "running" ? Style::accent : Style::faint;
}

std::string share_words(std::int64_t share_bp) {
  return fmt::format("{}%", static_cast<double>(share_bp) / 100.0);
}

}  // namespace driftgate::cli::live
