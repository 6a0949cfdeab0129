#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/statistics/random.hpp"

namespace driftgate::simulation {

/// One sequence as a test sees it: its rows, how many of their values are above the world's `row_limit`, and
/// the sum of their values, each in [0, 1].
struct RefereeSequence {
  std::uint32_t rows = 0;
  std::uint32_t above = 0;
  double sum = 0;
};

/// A population of sequences that was chosen to break a test, with its figures known to 1e-9 of their value.
/// It was written from the claims alone, without knowledge of the methods. Sequences are drawn independently.
///
/// A limit exactly at a figure must not be passed in more than 5 % of the runs, nor be found violated in more
/// than 5 %. A limit 1 % below a figure must not be passed more often than that, a limit 1 % above it not be
/// found violated more often. Where a figure is 0 or 1, one side of it has no limit to set.
struct RefereeWorld {
  std::string_view name;
  std::string_view why;       ///< one sentence: why it might break a method
  std::uint32_t longest = 0;  ///< L_max, known before the data; no sequence has more rows
  double row_limit = 0;       ///< x of claims (a) and (b): a row counts when its value is above it, not at it
  double sequence_limit = 0;  ///< x of claim (c): a sequence counts when its mean is above it, not at it
  double share_average = 0;   ///< (a) E[rows above row_limit / rows]
  double share_rows = 0;      ///< (b) E[rows above row_limit] / E[rows]
  double share_sequences = 0;  ///< (c) P(mean > sequence_limit), with the mean in real arithmetic
  double mean_once = 0;        ///< (d) E[mean]
  double mean_tokens = 0;      ///< (e) E[sum] / E[rows]
  std::function<double(double)> mean_clipped;  ///< (d) clipped at c in (0, 1]: E[min(mean, c)]
  std::function<RefereeSequence(stages::Random&)> draw_one;

  [[nodiscard]] std::vector<RefereeSequence> draw(stages::Random& random, std::size_t n) const;
};

/// All worlds, in a fixed order; built at the first call.
[[nodiscard]] const std::vector<RefereeWorld>& referee_worlds();
/// The world of that name, or nullptr.
[[nodiscard]] const RefereeWorld* referee_world(std::string_view name);

/// The clips at which `referee_truths` gives `mean_clipped`.
inline constexpr std::array kRefereeClips = {0.02, 0.1, 0.5};

/// What `--truths` prints and tests/simulation/referee_truths.py reads: for each world two lines of JSON. The
/// first holds its figures, the second what `draws` sequences from its generator gave, each as [estimate,
/// standard error], so that a generator that does not draw its world is found as well:
///
///     {"world": "all_equal", "longest": 16, "row_limit": 0.1, "sequence_limit": 0.02, "share_average":
///     0.125,
///      "share_rows": …, "share_sequences": …, "mean_once": …, "mean_tokens": …, "mean_clipped": [[0.02,
///      0.02], …]}
///     {"drawn": "all_equal", "draws": 200000, "longest": 16, "share_average": [0.125, 0], "share_rows": […],
///     …,
///      "mean_clipped": [[0.02, 0.02, 0], …]}
///
/// `longest` in the second line is the longest sequence that was drawn. Numbers have 17 digits.
[[nodiscard]] std::string referee_truths(std::size_t draws, std::uint64_t seed);

}  // namespace driftgate::simulation
