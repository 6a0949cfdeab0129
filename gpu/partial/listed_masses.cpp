#include "gpu/partial/listed_masses.hpp"

#include <algorithm>
#include <cmath>

namespace driftgate::gpu {

namespace {

/// Roundings of a log-probability beside that of its storage, in units of the arithmetic: two for each nat
/// (the logit less the largest one, the logarithm) and three others (exponential, twice, and division).
constexpr double kRoundingsOfNat = 2, kRoundings = 3;
/// Roundings of a normaliser, in units of the arithmetic: at least these (2·10⁻⁶ in float32), one for each
/// term, and for long sums this many times the root of the number of terms.
constexpr double kNormaliserRoundings = 34, kOfRoot = 12;
/// Stands for a vocabulary that is not known.
constexpr double kLargeVocabulary = 131'072;

}  // namespace

double error_of(double logprob, const LogprobError& error) {
  return std::abs(logprob) * error.relative + error.absolute;
}

double source_error_of(double logprob, const LogprobError& error) {
  return error_of(logprob, error) + (kRoundingsOfNat * std::abs(logprob) + kRoundings) * error.unit;
}

double normaliser_error(const LogprobError& error, std::uint32_t vocabulary) {
  const double tokens = vocabulary == 0 ? kLargeVocabulary : static_cast<double>(vocabulary);
  return std::max(kNormaliserRoundings, std::min(tokens, kOfRoot * std::sqrt(tokens))) * error.unit;
}

Interval mass_of(double logprob, const LogprobError& error, double normaliser) {
  const double e = source_error_of(logprob, error) + normaliser;
  return {std::exp(logprob - e), std::min(1.0, std::exp(logprob + e))};
}

ListedMasses listed_masses(std::span<const ListedToken> tokens, const LogprobError& error,
                           std::uint32_t vocabulary) {
  ListedMasses out;
  const bool whole = vocabulary > 0 && tokens.size() == vocabulary;
  const double normaliser = whole ? (kNormaliserRoundings + static_cast<double>(vocabulary)) * error.unit
                                  : normaliser_error(error, vocabulary);
  out.masses.reserve(tokens.size());
  for (const ListedToken& token : tokens) out.masses.push_back(mass_of(token.logprob, error, normaliser));
  if (!whole) return out;

  double total = 0, squares = 0;
  Interval sum;
  for (const ListedToken& token : tokens) {
    const double l = token.logprob, e = source_error_of(l, error), mass = std::exp(l);
    const Interval& box = out.scaled.emplace_back(std::exp(l - e), std::exp(l + e));
    total += mass;
    squares += mass * e * e;
    sum.lower += box.lower;
    sum.upper += box.upper;
    out.error.most = std::max(out.error.most, e);
  }
  if (total == 0) {
    out.scaled.clear();
    return out;
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Interval& box = out.scaled[i];
    // Of everything else, at its most and at its least.
    const double most = std::max(0.0, sum.upper - box.upper), least = std::max(0.0, sum.lower - box.lower);
    Interval& mass = out.masses[i];
    const Interval narrow{std::max(mass.lower, box.lower / (box.lower + most)),
                          std::min(mass.upper, box.upper / (box.upper + least))};
    // They are apart only where the list is not that of a distribution, which is a finding.
    if (narrow.lower <= narrow.upper) mass = narrow;
  }
  for (Interval& box : out.scaled) box = {box.lower / total, box.upper / total};
  out.error.total = {sum.lower / total, sum.upper / total};
  out.error.root_mean_square = std::sqrt(squares / total);
  return out;
}

}  // namespace driftgate::gpu
