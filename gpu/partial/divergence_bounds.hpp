#pragma once

#include <vector>

namespace driftgate::gpu {

/// A figure that is known to lie in [lower, upper]; upper may be infinite.
struct Interval {
  double lower = 0, upper = 0;
};

/// Masses that the two kernels give to one token, or to the tokens of one set together.
struct MassPair {
  Interval p, q;
};

/// What is known of two distributions of which only parts are known (docs/design/measurement.md, "Bounds").
struct Support {
  /// Tokens whose probability both kernels told: the set H.
  std::vector<MassPair> shared;
  /// The masses α and β of everything else.
  MassPair tail;
  /// Tokens of which one kernel alone told its probability. The other's lies under the least that it listed,
  /// or under all that it left over.
  std::vector<MassPair> only_train, only_inf;
  /// What neither kernel named.
  MassPair rest;
  /// Mass that train named nowhere, and the same for inf.
  double unnamed_train = 0, unnamed_inf = 0;
  /// Every token of the vocabulary is in `shared`: there is no tail.
  bool complete = false;
};

/// Bounds of the divergences over every pair of distributions that `support` allows.
///
/// Lower: a divergence of this kind is a sum of terms that are jointly convex and homogeneous in (p, q), so
/// that merging tokens can only lessen it (Csiszár 1967, the log-sum inequality), and each term is least
/// where p and q are nearest. Two ways of merging are tried, H with one tail, and H with each token that one
/// kernel named, and the larger is taken. Upper: p and q share nothing outside H.
struct DivergenceBounds {
  Interval tv, kl_train_inf, kl_inf_train, js, hellinger2, chi2;
};
[[nodiscard]] DivergenceBounds divergence_bounds(const Support& support);

}  // namespace driftgate::gpu
