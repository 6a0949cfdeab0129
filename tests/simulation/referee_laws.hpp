#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/simulation/referee_worlds.hpp"

/// What the referee's worlds are made of. Each part can be drawn from, and gives its expectations in closed
/// form or as a finite sum.
namespace driftgate::simulation::referee {

struct Lengths {
  std::vector<std::pair<std::uint32_t, double>> chances;  ///< every length that occurs, and its probability
  std::function<std::uint32_t(stages::Random&)> draw;
  [[nodiscard]] double mean() const;
};

[[nodiscard]] Lengths always(std::uint32_t length);
/// Uniform from `least` to `most`, both included.
[[nodiscard]] Lengths between(std::uint32_t least, std::uint32_t most);
/// `least` times a Pareto variable with this exponent, rounded down, and at most `longest`.
[[nodiscard]] Lengths pareto(std::uint32_t least, double exponent, std::uint32_t longest);

/// The mean drift of a sequence as a continuous variable in [0, 1].
struct Drift {
  std::function<double(stages::Random&)> draw;
  std::function<double(double)> tail;    ///< P(drift > t), for t in [0, 1)
  std::function<double(double)> capped;  ///< E[min(drift, c)], for c in [0, 1]
  /// E[drift; drift > q].
  [[nodiscard]] double held_above(double q) const;
};

/// Log-normal with this mean and coefficient of variation, and at most 1 (which lowers the mean a little).
[[nodiscard]] Drift log_normal_drift(double mean, double variation);
/// `scale` times a uniform variable to the `power`.
[[nodiscard]] Drift power_drift(double scale, double power);
/// `least` times a Pareto variable with this exponent, and at most 1.
[[nodiscard]] Drift pareto_drift(double least, double exponent);

/// The members of a world that are chosen, not computed.
struct Setting {
  std::string_view name, why;
  std::uint32_t longest = 0;
  double row_limit = 0, sequence_limit = 0;
};

/// A sequence of a world in which only so many are possible.
struct Atom {
  double chance = 0;
  RefereeSequence sequence;
  double mean = 0;  ///< of its values in real arithmetic; `atom` takes it as sum / rows
};
[[nodiscard]] Atom atom(double chance, std::uint32_t rows, std::uint32_t above, double sum);
/// A sequence all of whose rows have this value.
[[nodiscard]] Atom even(double chance, std::uint32_t rows, double value, double row_limit);

/// Draws the atoms themselves unless `draw` is given, which must have their distribution.
[[nodiscard]] RefereeWorld of_atoms(const Setting& setting, std::vector<Atom> atoms,
                                    std::function<RefereeSequence(stages::Random&)> draw = {});

using ChanceByLength = std::function<double(std::uint32_t)>;
/// Each row alone is above the limit, at `value`, with a chance that depends on the length; the others are 0.
[[nodiscard]] RefereeWorld row_by_row(const Setting& setting, const Lengths& lengths,
                                      const ChanceByLength& chance, double value);
/// All rows of a sequence are at `value` with a chance that depends on its length, or all are 0.
[[nodiscard]] RefereeWorld all_or_none(const Setting& setting, const Lengths& lengths,
                                       const ChanceByLength& chance, double value);
/// Rows of a stationary Markov chain: a share of them is above the limit, at `value`, and stays there for the
/// next row with the probability `stay`; the others are 0.
[[nodiscard]] RefereeWorld sticky_rows(const Setting& setting, std::uint32_t length, double share,
                                       double stay, double value);

/// A share of the sequences. Lengths do not depend on the drift, unless a step says that sequences which
/// drift more than `beyond` have other ones.
struct Part {
  double share = 1;
  Drift drift;
  Lengths lengths;
  struct Step {
    double beyond = 0;
    Lengths lengths;
  };
  std::optional<Step> step{};
};
/// All rows of a sequence have the same value, its drift.
[[nodiscard]] RefereeWorld even_rows(const Setting& setting, std::vector<Part> parts);
/// Row t of L has the value 2 t / (L + 1) times the drift of the sequence, which must be at most one half.
[[nodiscard]] RefereeWorld growing_rows(const Setting& setting, const Drift& drift, const Lengths& lengths);

}  // namespace driftgate::simulation::referee
