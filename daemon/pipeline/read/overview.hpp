#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/pipeline/read/promotion_facts.hpp"
#include "daemon/pipeline/service.hpp"
#include "daemon/store/promotions/of_many.hpp"
#include "daemon/store/promotions/overview.hpp"

namespace driftgate::pipeline {

/// What a page of the overview is made from, read by one statement for each member.
struct OverviewRows {
  std::vector<store::ModelRow> models{};
  std::string next{};                             ///< cursor of the next page; empty on the last one
  std::vector<store::PromotionRow> promotions{};  ///< one for each model that has one open
  std::vector<store::PromotionRow> ended{};       ///< the last of each model
  std::vector<store::VersionRow> incumbents{};
  std::vector<store::RouteRow> desired{}, applied{};
  std::vector<store::GuardMark> guards{};
  std::vector<store::ScheduleRow> schedules{};
  std::vector<store::ScheduleFireRow> fires{};
  store::OverviewCounts counts{};
  std::uint64_t tree_size = 0;
};
[[nodiscard]] schema::Result<OverviewRows> read_overview(store::Reader& reader, const std::string& after,
                                                         const std::optional<std::string>& text,
                                                         std::size_t limit);

/// The overview that service.hpp describes. `promotions`: the facts of `rows.promotions`, in their order.
[[nodiscard]] Overview overview_of(const OverviewRows& rows, std::span<const PromotionFacts> promotions);

}  // namespace driftgate::pipeline
