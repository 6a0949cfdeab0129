#include "daemon/pipeline/stages/shadow_tally.hpp"

#include <nlohmann/json.hpp>

#include "schema/json.hpp"
#include "stages/clauses/selection.hpp"

namespace driftgate::pipeline {

ShadowTally::ShadowTally(const std::string& text) {
  if (text.empty()) return;
  try {
    const auto value = nlohmann::json::parse(text);
    auto keys = value.at("keys").get<std::map<std::string, std::uint64_t>>();
    requests_ = value.at("requests").get<std::uint64_t>();
    keys_ = std::move(keys);
  } catch (const nlohmann::json::exception&) {
    return;
  }
}

void ShadowTally::count(const std::string& scope, std::uint64_t key_hash) {
  auto& seen = seen_[scope];
  if (seen.size() < kMaxKeys && seen.insert(key_hash).second) ++keys_[scope];
}

void ShadowTally::add(const route::Window& window, const std::vector<schema::SliceWhere>& critical) {
  for (const route::Observation& seen : window.observations) {
    ++requests_;
    if (seen.outcome == route::Outcome::excluded) continue;
    count({}, seen.key_hash);
    const auto attributes = stages::parse_slice(seen.slice);
    for (const schema::SliceWhere& where : critical) {
      if (stages::matches(attributes, where)) count(schema::slice_text(where), seen.key_hash);
    }
  }
}

bool ShadowTally::enough(const std::vector<stages::ShadowNeed>& needs, std::uint64_t pairs) const {
  const double share =
      requests_ == 0 ? 0 : std::min(1.0, static_cast<double>(pairs) / static_cast<double>(requests_));
  return std::ranges::all_of(needs, [&](const stages::ShadowNeed& need) {
    if (need.pairs == 0) return true;
    const auto keys = keys_.find(schema::slice_text(need.where));
    return keys != keys_.end() &&
           share * static_cast<double>(keys->second) >= static_cast<double>(need.pairs);
  });
}

std::string ShadowTally::text() const {
  return schema::canonical_json(nlohmann::json{{"requests", requests_}, {"keys", keys_}});
}

}  // namespace driftgate::pipeline
