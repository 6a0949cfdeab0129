#include "daemon/pipeline/stages/progress.hpp"

#include <boost/describe.hpp>
#include <boost/mp11.hpp>
#include <nlohmann/json.hpp>

#include "schema/json.hpp"

namespace driftgate::pipeline {
using nlohmann::json;

BOOST_DESCRIBE_STRUCT(StageProgress, (),
                      (phase, pairs, mirror_failed, mirror_skipped, shadow_keys, last_window_us,
                       telemetry_age_ms, share_bp, frozen, advance_proven, last_action, waits_for,
                       approval_digest, keys_in_step, exposed_requests, exposed_keys,
                       failed_requests_candidate, failed_requests_incumbent, max_e_value, first_failure_us,
                       sample, samples, spent_k))

namespace {

using Members = boost::describe::describe_members<StageProgress, boost::describe::mod_public>;

}  // namespace

std::string to_json(const StageProgress& progress) {
  json value = json::object();
  boost::mp11::mp_for_each<Members>([&](auto member) { value[member.name] = progress.*member.pointer; });
  return schema::canonical_json(value);
}

StageProgress progress_from_json(std::string_view text) {
  StageProgress progress;
  const auto value = json::parse(text, nullptr, false);
  if (!value.is_object()) return progress;
  boost::mp11::mp_for_each<Members>([&](auto described) {
    const auto found = value.find(described.name);
    if (found == value.end()) return;
    auto& member = progress.*described.pointer;
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
