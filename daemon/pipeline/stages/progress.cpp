#include "daemon/pipeline/stages/progress.hpp"

#include <nlohmann/json.hpp>

#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;

/// Names every member once for both directions.
template <typename Progress, typename Visit>
void each_member(Progress& p, Visit visit) {
  visit("phase", p.phase);
  visit("pairs", p.pairs);
  visit("mirror_failed", p.mirror_failed);
  visit("mirror_skipped", p.mirror_skipped);
  visit("shadow_keys", p.shadow_keys);
  visit("last_window_us", p.last_window_us);
  visit("telemetry_age_ms", p.telemetry_age_ms);
  visit("share_bp", p.share_bp);
  visit("frozen", p.frozen);
  visit("advance_proven", p.advance_proven);
  visit("last_action", p.last_action);
  visit("approval_digest", p.approval_digest);
  visit("keys_in_step", p.keys_in_step);
  visit("exposed_requests", p.exposed_requests);
  visit("exposed_keys", p.exposed_keys);
  visit("failed_requests_candidate", p.failed_requests_candidate);
  visit("failed_requests_incumbent", p.failed_requests_incumbent);
  visit("max_e_value", p.max_e_value);
  visit("first_failure_us", p.first_failure_us);
  visit("sample", p.sample);
  visit("samples", p.samples);
  visit("spent_k", p.spent_k);
}

}  // namespace

std::string to_json(const StageProgress& progress) {
  json value = json::object();
  each_member(progress, [&](const char* name, const auto& member) { value[name] = member; });
  return schema::canonical_json(value);
}

StageProgress progress_from_json(std::string_view text) {
  StageProgress progress;
  const auto value = json::parse(text, nullptr, false);
  if (!value.is_object()) return progress;
  each_member(progress, [&](const char* name, auto& member) {
    const auto found = value.find(name);
    if (found == value.end()) return;
    using Member = std::remove_reference_t<decltype(member)>;
    if constexpr (std::is_same_v<Member, std::string>) {
      if (found->is_string()) member = found->template get<std::string>();
    } else if constexpr (std::is_same_v<Member, bool>) {
      if (found->is_boolean()) member = found->template get<bool>();
    } else if constexpr (std::is_same_v<Member, double>) {
      member = schema::number_from_json(*found).value_or(member);
    } else {
      if (found->is_number()) member = found->template get<Member>();
    }
  });
  return progress;
}

}  // namespace driftgate::pipeline
