#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "daemon/pipeline/read/promotion_facts.hpp"
#include "daemon/pipeline/service.hpp"
#include "schema/contract/contract.hpp"

namespace driftgate::pipeline {

/// The item of a list that service.hpp describes (Service::promotions).
[[nodiscard]] nlohmann::json promotion_json(const PromotionFacts& facts);
[[nodiscard]] View promotion_item(const PromotionFacts& facts);
/// {"version", "engine", "kernel", "url", "checkpoint"}, or null.
[[nodiscard]] nlohmann::json version_json(const std::optional<store::VersionRow>& version);

}  // namespace driftgate::pipeline
