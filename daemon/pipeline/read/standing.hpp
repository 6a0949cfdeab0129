#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/pipeline/read/promotion_facts.hpp"

namespace driftgate::pipeline {

/// What a person can do so that a promotion goes on.
struct Need {
  std::string action;  ///< "approve", "waive", "resume" or "lift_hold"
  std::string scope;   ///< that the person's token needs
  std::string text;    ///< one sentence
  bool operator==(const Need&) const = default;
};

/// Where a promotion stands, in sentences for people who have not followed it.
struct Standing {
  std::string why;            ///< why it stands where it stands
  std::string next;           ///< what comes next, and when as far as that is known; may be ""
  std::vector<Need> needs{};  ///< empty while nobody can do anything
};
[[nodiscard]] Standing standing_of(const PromotionFacts& facts);

/// "2026-01-31 12:00:05 UTC"
[[nodiscard]] std::string utc_text(std::int64_t time_us);
/// The text on one line, of bounded length, with a capital at its start and a full stop at its end; "" for
/// "".
[[nodiscard]] std::string sentence(std::string_view text);

}  // namespace driftgate::pipeline
