#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/schedule/cron.hpp"
#include "daemon/schedule/zone.hpp"

namespace driftgate::schedule {

/// A recurring time in which nothing begins by itself and no share grows. It never keeps anybody from ending
/// a promotion.
struct Blackout {
  std::string text;
  Cron starts;
  std::int64_t lasts_s = 0;
  Zone zone;
  std::string model;  ///< empty: all models

  [[nodiscard]] bool covers(std::string_view name, std::int64_t utc_s) const;
};
inline constexpr std::int64_t kMaxBlackoutSeconds = 31 * 86'400;

/// "0 18 * * fri 62h Europe/Berlin [MODEL]": when it starts, how long it lasts (units d, h, m), its zone and
/// the model, all without. `invalid_argument`.
[[nodiscard]] schema::Result<Blackout> parse_blackout(std::string_view text);

/// The one that covers a model at a time, or nullptr.
[[nodiscard]] const Blackout* find_blackout(std::span<const Blackout> all, std::string_view model,
                                            std::int64_t utc_s);

}  // namespace driftgate::schedule
