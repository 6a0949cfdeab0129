#include "tests/simulation/referee_laws.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

namespace driftgate::simulation::referee {

using stages::Random;

namespace {

double normal_cdf(double z) {
  return std::erfc(-z / std::numbers::sqrt2) / 2;
}

/// Uniform in (0, 1].
double positive(Random& random) {
  return 1 - random.uniform();
}

double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(positive(random)));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

/// Successes among `rows` attempts, found by the gaps between them.
std::uint32_t binomial(Random& random, std::uint32_t rows, double chance) {
  if (chance <= 0) return 0;
  if (chance >= 1) return rows;
  std::uint32_t count = 0;
  for (double at = 0;; at += 1, ++count) {
    at += std::floor(std::log(positive(random)) / std::log1p(-chance));
    if (at >= rows) return count;
  }
}

/// Probabilities of 0, 1, … successes, without those of the upper tail that are below 1e-25.
std::vector<double> binomial_chances(std::uint32_t rows, double chance) {
  if (chance >= 1) {
    std::vector<double> sure(rows + 1, 0.0);
    sure[rows] = 1;
    return sure;
  }
  std::vector<double> out{std::exp(rows * std::log1p(-chance))};
  for (std::uint32_t k = 1; k <= rows; ++k) {
    out.push_back(out.back() * (rows - k + 1) / k * chance / (1 - chance));
    if (k > rows * chance && out.back() < 1e-25) break;
  }
  return out;
}

RefereeWorld begin(const Setting& setting) {
  RefereeWorld world;
  world.name = setting.name;
  world.why = setting.why;
  world.longest = setting.longest;
  world.row_limit = setting.row_limit;
  world.sequence_limit = setting.sequence_limit;
  return world;
}

}  // namespace

double Lengths::mean() const {
  double sum = 0;
  for (const auto& [length, chance] : chances) sum += chance * length;
  return sum;
}

Lengths always(std::uint32_t length) {
  return {{{length, 1.0}}, [length](Random&) { return length; }};
}

Lengths between(std::uint32_t least, std::uint32_t most) {
  Lengths out;
  const std::uint32_t count = most - least + 1;
  for (std::uint32_t length = least; length <= most; ++length) out.chances.emplace_back(length, 1.0 / count);
  out.draw = [least, count](Random& random) {
    return least + static_cast<std::uint32_t>(random.below(count));
  };
  return out;
}

Lengths pareto(std::uint32_t least, double exponent, std::uint32_t longest) {
  Lengths out;
  const auto reaches = [=](double length) { return std::pow(least / length, exponent); };
  for (std::uint32_t length = least; length < longest; ++length)
    out.chances.emplace_back(length, reaches(length) - reaches(length + 1.0));
  out.chances.emplace_back(longest, reaches(longest));
  out.draw = [=](Random& random) {
    const double length = std::floor(least * std::pow(positive(random), -1 / exponent));
    return static_cast<std::uint32_t>(std::min<double>(length, longest));
  };
  return out;
}

double Drift::held_above(double q) const {
  return capped(1) - capped(q) + q * tail(q);
}

Drift log_normal_drift(double mean, double variation) {
  const double sigma = std::sqrt(std::log1p(variation * variation));
  const double middle = std::log(mean) - sigma * sigma / 2;
  Drift out;
  out.draw = [=](Random& random) { return std::min(1.0, std::exp(middle + sigma * normal(random))); };
  out.tail = [=](double t) { return t >= 1 ? 0 : normal_cdf((middle - std::log(t)) / sigma); };
  out.capped = [=](double c) {
    const double z = (std::log(c) - middle) / sigma;
    return mean * normal_cdf(z - sigma) + c * normal_cdf(-z);
  };
  return out;
}

Drift power_drift(double scale, double power) {
  Drift out;
  out.draw = [=](Random& random) { return scale * std::pow(random.uniform(), power); };
  out.tail = [=](double t) { return t >= scale ? 0 : 1 - std::pow(t / scale, 1 / power); };
  out.capped = [=](double c) {
    const double cut = std::min(c, scale);
    return cut - scale * std::pow(cut / scale, 1 + 1 / power) * power / (power + 1);
  };
  return out;
}

Drift pareto_drift(double least, double exponent) {
  Drift out;
  out.draw = [=](Random& random) { return std::min(1.0, least * std::pow(positive(random), -1 / exponent)); };
  out.tail = [=](double t) { return t >= 1 ? 0 : t <= least ? 1 : std::pow(least / t, exponent); };
  out.capped = [=](double c) {
    if (c <= least) return c;
    return least + least * (1 - std::pow(least / c, exponent - 1)) / (exponent - 1);
  };
  return out;
}

Atom atom(double chance, std::uint32_t rows, std::uint32_t above, double sum) {
  return {chance, {rows, above, sum}, sum / rows};
}

Atom even(double chance, std::uint32_t rows, double value, double row_limit) {
  return {chance, {rows, value > row_limit ? rows : 0, rows * value}, value};
}

RefereeWorld of_atoms(const Setting& setting, std::vector<Atom> atoms,
                      std::function<RefereeSequence(Random&)> draw) {
  RefereeWorld world = begin(setting);
  double rows = 0, above = 0, sum = 0;
  for (const Atom& each : atoms) {
    const RefereeSequence& sequence = each.sequence;
    rows += each.chance * sequence.rows;
    above += each.chance * sequence.above;
    sum += each.chance * each.mean * sequence.rows;
    world.share_average += each.chance * sequence.above / sequence.rows;
    world.share_sequences += each.mean > world.sequence_limit ? each.chance : 0;
    world.mean_once += each.chance * each.mean;
  }
  world.share_rows = above / rows;
  world.mean_tokens = sum / rows;

  std::vector<double> until;
  for (const Atom& each : atoms) until.push_back(each.chance + (until.empty() ? 0 : until.back()));
  const auto shared = std::make_shared<const std::vector<Atom>>(std::move(atoms));
  world.mean_clipped = [shared](double c) {
    double clipped = 0;
    for (const Atom& each : *shared) clipped += each.chance * std::min(each.mean, c);
    return clipped;
  };
  world.draw_one = std::move(draw);
  if (!world.draw_one) {
    world.draw_one = [shared, until = std::move(until)](Random& random) {
      const auto at = std::upper_bound(until.begin(), until.end() - 1, random.uniform());
      return (*shared)[static_cast<std::size_t>(at - until.begin())].sequence;
    };
  }
  return world;
}

RefereeWorld row_by_row(const Setting& setting, const Lengths& lengths, const ChanceByLength& chance,
                        double value) {
  std::vector<Atom> atoms;
  for (const auto& [rows, of_length] : lengths.chances) {
    const std::vector<double> counts = binomial_chances(rows, chance(rows));
    for (std::uint32_t k = 0; k < counts.size(); ++k)
      atoms.push_back(atom(of_length * counts[k], rows, k, k * value));
  }
  return of_atoms(setting, std::move(atoms), [=, draw = lengths.draw](Random& random) {
    const std::uint32_t rows = draw(random);
    const std::uint32_t above = binomial(random, rows, chance(rows));
    return RefereeSequence{rows, above, above * value};
  });
}

RefereeWorld all_or_none(const Setting& setting, const Lengths& lengths, const ChanceByLength& chance,
                         double value) {
  std::vector<Atom> atoms;
  for (const auto& [rows, of_length] : lengths.chances) {
    atoms.push_back(even(of_length * chance(rows), rows, value, setting.row_limit));
    atoms.push_back(even(of_length * (1 - chance(rows)), rows, 0, setting.row_limit));
  }
  return of_atoms(setting, std::move(atoms), [=, draw = lengths.draw](Random& random) {
    const std::uint32_t rows = draw(random);
    return random.uniform() < chance(rows) ? RefereeSequence{rows, rows, rows * value}
                                           : RefereeSequence{rows, 0, 0};
  });
}

RefereeWorld sticky_rows(const Setting& setting, std::uint32_t length, double share, double stay,
                         double value) {
  const double enter = (1 - stay) * share / (1 - share);
  // Probabilities of k rows above so far, by whether the last one is.
  std::vector<double> in(length + 1, 0.0), out(length + 1, 0.0);
  in[1] = share;
  out[0] = 1 - share;
  for (std::uint32_t row = 2; row <= length; ++row) {
    for (std::uint32_t k = row; k > 0; --k) {
      const double entered = in[k - 1] * stay + out[k - 1] * enter;
      out[k] = in[k] * (1 - stay) + out[k] * (1 - enter);
      in[k] = entered;
    }
    out[0] *= 1 - enter;
    in[0] = 0;
  }
  std::vector<Atom> atoms;
  for (std::uint32_t k = 0; k <= length; ++k) atoms.push_back(atom(in[k] + out[k], length, k, k * value));
  return of_atoms(setting, std::move(atoms), [=](Random& random) {
    bool now = random.uniform() < share;
    std::uint32_t above = now ? 1 : 0;
    for (std::uint32_t row = 1; row < length; ++row) {
      now = random.uniform() < (now ? stay : enter);
      above += now ? 1 : 0;
    }
    return RefereeSequence{length, above, above * value};
  });
}

RefereeWorld even_rows(const Setting& setting, std::vector<Part> parts) {
  RefereeWorld world = begin(setting);
  double rows = 0, above = 0, sum = 0;
  const double x = world.row_limit;
  for (const Part& part : parts) {
    const Drift& drift = part.drift;
    const double usual = part.lengths.mean();
    const double other = part.step ? part.step->lengths.mean() : usual;
    const double beyond = part.step ? part.step->beyond : 1;
    const double held = drift.held_above(beyond);
    rows += part.share * (usual + drift.tail(beyond) * (other - usual));
    above += part.share * (drift.tail(x) * usual + drift.tail(std::max(x, beyond)) * (other - usual));
    sum += part.share * (drift.capped(1) * usual + held * (other - usual));
    world.share_average += part.share * drift.tail(x);
    world.share_sequences += part.share * drift.tail(world.sequence_limit);
    world.mean_once += part.share * drift.capped(1);
  }
  world.share_rows = above / rows;
  world.mean_tokens = sum / rows;
  world.mean_clipped = [parts](double c) {
    double clipped = 0;
    for (const Part& part : parts) clipped += part.share * part.drift.capped(c);
    return clipped;
  };
  world.draw_one = [parts = std::move(parts), x](Random& random) {
    double u = random.uniform();
    std::size_t at = 0;
    while (at + 1 < parts.size() && u >= parts[at].share) u -= parts[at++].share;
    const Part& part = parts[at];
    const double drift = part.drift.draw(random);
    const bool other = part.step && drift > part.step->beyond;
    const std::uint32_t length = (other ? part.step->lengths : part.lengths).draw(random);
    return RefereeSequence{length, drift > x ? length : 0, length * drift};
  };
  return world;
}

RefereeWorld growing_rows(const Setting& setting, const Drift& drift, const Lengths& lengths) {
  RefereeWorld world = begin(setting);
  const double x = world.row_limit;
  double above = 0;
  for (const auto& [rows, chance] : lengths.chances) {
    double count = 0;
    for (std::uint32_t t = 1; t <= rows; ++t) count += drift.tail(std::min(1.0, x * (rows + 1) / (2.0 * t)));
    above += chance * count;
    world.share_average += chance * count / rows;
  }
  world.share_rows = above / lengths.mean();
  world.share_sequences = drift.tail(world.sequence_limit);
  world.mean_once = world.mean_tokens = drift.capped(1);
  world.mean_clipped = drift.capped;
  world.draw_one = [=](Random& random) {
    const std::uint32_t rows = lengths.draw(random);
    const double mean = drift.draw(random);
    RefereeSequence out{rows, 0, rows * mean};
    for (std::uint32_t t = 1; t <= rows; ++t) out.above += 2.0 * t / (rows + 1) * mean > x ? 1 : 0;
    return out;
  };
  return world;
}

}  // namespace driftgate::simulation::referee
