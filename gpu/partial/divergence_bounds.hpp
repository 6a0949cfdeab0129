#pragma once

#include <vector>

namespace driftgate::gpu {

/// A figure that lies in [lower, upper]; upper may be infinite.
struct Interval {
  double lower = 0, upper = 0;
};

/// Probability masses that the two kernels give to one token or to a set of tokens.
struct MassPair {
  Interval p, q;
};

/// What is known of the errors of one kernel's probabilities where they are those of every token and are
/// known up to a factor that the tokens share (docs/design/measurement.md, "Rounding of the source").
struct ScaledError {
  Interval total{1, 1};         ///< of the sum of all probabilities, before that factor
  double root_mean_square = 0;  ///< of the errors of log-probabilities, in nats, weighed by probability
  double most = 0;              ///< the largest of these errors
};

/// Two distributions that are known only in part (docs/design/measurement.md, "Bounds").
struct Support {
  /// Tokens whose probability both kernels reported: the set H.
  std::vector<MassPair> shared;
  /// The masses α and β of everything else.
  MassPair tail;
  /// Tokens whose probability only one kernel reported. The other kernel gives them at most the probability
  /// of its least likely listed token, and at most the mass that it has not reported.
  std::vector<MassPair> only_train, only_inf;
  /// The mass of the tokens that neither kernel reported.
  MassPair rest;
  /// The mass that train has not reported for any token, and the same for inf.
  double unnamed_train = 0, unnamed_inf = 0;
  /// Whether `shared` holds every token of the vocabulary, so that there is no tail.
  bool complete = false;
  /// The probabilities of `shared` up to a factor for each kernel, parallel to it, and their errors. Empty
  /// where `shared` is not complete or nothing is known beside it.
  std::vector<MassPair> scaled;
  ScaledError error_train, error_inf;
};

/// Bounds of the divergences (docs/design/measurement.md, "Bounds") over every pair of distributions that
/// `support` allows.
///
/// Lower bounds: each divergence is a sum of terms that are jointly convex and homogeneous in (p, q), so that
/// merging tokens can only make it smaller (the log-sum inequality; Csiszár 1967), and each term is smallest
/// where p and q are nearest. Two mergers are tried, H with one tail, and H with each token that only one
/// kernel reported; the larger result counts. Upper bounds: p and q share nothing outside H. Where `scaled`
/// is given, tv and the two KL have a second pair of bounds, from the lists as wholes; the tighter one
/// counts.
struct DivergenceBounds {
  Interval tv, kl_train_inf, kl_inf_train, js, hellinger2, chi2;
};
[[nodiscard]] DivergenceBounds divergence_bounds(const Support& support);

}  // namespace driftgate::gpu
