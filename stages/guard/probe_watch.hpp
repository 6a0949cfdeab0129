#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "schema/error.hpp"
#include "stages/guard/e_detector.hpp"

namespace driftgate::stages {

/// The greedy answer to a golden prompt.
struct ProbeAnswer {
  std::vector<std::string> tokens;
  std::vector<double> logprobs;  ///< of the tokens; NaN where the engine tells none
};

/// How far an answer is from another one to the same prompt.
struct ProbeDistance {
  double logprob =
      0;  ///< mean |difference| of the log-probabilities up to the first token that differs, in nats
  bool flipped = false;  ///< a token differs
};
/// std::nullopt where no position has a log-probability in both.
[[nodiscard]] std::optional<ProbeDistance> probe_distance(const ProbeAnswer& before, const ProbeAnswer& now);

/// Detects that an engine no longer computes what was promoted, by the same prompts asked again and again
/// (docs/design/statistics.md, "Golden probes"). The first round takes the reference answers, the next ones
/// the floor: how far the engine is from itself. Later answers, to prompts in random order, are held against
/// it by three detectors with equal parts:
/// - exceeding: the distance is larger than every distance of the floor;
/// - shifted: the distance as a part of twice the largest one of the floor;
/// - flipped: a greedy token differs.
class ProbeWatch {
 public:
  static constexpr std::size_t kFloorRounds = 3;
  /// The floor's limits hold with this probability each.
  static constexpr double kFloorAlpha = 0.05;

  /// `prompts` ≥ 1; `mean_time_us` as of RateWatch; `seed` chooses the order of the prompts.
  ProbeWatch(std::size_t prompts, std::int64_t mean_time_us, std::uint64_t seed);

  [[nodiscard]] std::size_t prompts() const { return reference_.size(); }
  [[nodiscard]] std::size_t next() const;  ///< index of the prompt to ask now
  /// Whether the reference and the floor are complete, so that answers are held against them.
  [[nodiscard]] bool armed() const { return armed_.has_value(); }
  /// Takes the answer to the prompt `next()`. False if it says nothing, since no log-probability can be
  /// compared; the same prompt, or after arming another one, is then asked next.
  bool observe(const ProbeAnswer& answer, std::int64_t asked_us);

  /// Whether an answer to the prompt is no further from its reference than the floor, and no token differs.
  /// False before arming.
  [[nodiscard]] bool is_within_floor(std::size_t prompt, const ProbeAnswer& answer) const;

  /// In units of the mean time between false alarms, as that of RateWatch.
  [[nodiscard]] double value() const;

  /// What there is to show. Figures of the floor are present once armed.
  struct Figures {
    std::uint64_t asked = 0;     ///< answers that could be compared, reference and floor included
    std::uint64_t compared = 0;  ///< after arming
    std::uint64_t exceeding = 0, flipped = 0;  ///< of those compared
    double mean_distance = 0, newest_distance = 0;
    double floor_largest = 0, floor_mean = 0;                          ///< distances of the floor
    double exceeding_value = 0, shifted_value = 0, flipped_value = 0;  ///< of the detectors
    std::int64_t since_us = 0;  ///< when the leading detector's change began
  };
  [[nodiscard]] Figures figures() const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Reads what to_json wrote. Error: `corrupt`.
  [[nodiscard]] static schema::Result<ProbeWatch> from_json(const nlohmann::json& json);

 private:
  struct Armed {
    double largest = 0, mean = 0;  ///< of the floor's distances
    double exceeding_limit = 0, shifted_limit = 0, flipped_limit = 0;
    EDetector exceeding, shifted, flipped;
    std::int64_t newest_us = 0;
    std::uint64_t exceeded = 0, flips = 0, compared = 0;
    double total = 0, newest = 0;
  };
  void add_floor(std::size_t prompt, const ProbeDistance& distance, std::int64_t asked_us);
  void arm(std::int64_t now_us);
  [[nodiscard]] Armed make_armed(double largest, double mean, double exceeding, double shifted,
                                 double flipped) const;

  std::int64_t mean_time_us_;
  std::uint64_t seed_;
  std::uint64_t asked_ = 0;
  std::uint64_t tries_ = 0;  ///< after arming: choose the next prompt
  std::vector<ProbeAnswer> reference_;
  std::vector<std::vector<double>> floor_;  ///< distances by prompt
  std::uint64_t floor_flips_ = 0;
  std::optional<Armed> armed_;
};

}  // namespace driftgate::stages
