#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "daemon/pipeline/read/promotion_facts.hpp"

namespace driftgate::pipeline {

/// The digest of what a person decides on: state (while paused or inconclusive with its reason), stage,
/// attempt, step, traffic, wanted share and freeze of the promotion, the verdicts of its newest run and the
/// evidence that an approval must name. Two views with equal digests differ in nothing of it.
[[nodiscard]] std::string evidence_shown(const PromotionFacts& facts);

/// "awaiting_approval in canary (attempt 1) at step 2, with 10% of the traffic"; a freeze, a wanted share
/// that is not applied and the reason of a pause are told too.
[[nodiscard]] std::string shown_text(const PromotionFacts& facts);

/// What was shown under a digest, for as long as it is remembered: so that a refused decision can say what
/// has changed since. Thread-safe.
class ShownBook {
 public:
  void note(const PromotionFacts& facts);
  /// Nothing when it was never shown by this daemon, or long ago.
  [[nodiscard]] std::optional<std::string> text_of(const std::string& digest) const;

 private:
  static constexpr std::size_t kMaxRemembered = 4'096;
  mutable std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> texts_;
  std::deque<std::string> order_;
};

/// `conflict` when `shown` is not the digest of what is shown now; the message says what it was, as far as
/// the book knows, and what it is. Nothing is checked for an empty `shown`.
[[nodiscard]] schema::Result<void> check_shown(const PromotionFacts& facts, const std::string& shown,
                                               const ShownBook& book);

}  // namespace driftgate::pipeline
