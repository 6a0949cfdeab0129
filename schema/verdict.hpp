#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/error.hpp"

namespace driftgate::schema {

/// The verdicts of docs/design/statistics.md, "The four verdicts". They are never merged.
enum class Verdict : std::uint8_t { pass, violated, inconclusive, error };
[[nodiscard]] std::string_view to_string(Verdict verdict);
[[nodiscard]] std::optional<Verdict> verdict_from_name(std::string_view name);

/// The version of the rules by which new verdicts are decided (registry: verdict_rule.hpp). A record that
/// states none is of kFirstRules: it was written before records stated a version.
inline constexpr std::uint32_t kFirstRules = 1;
inline constexpr std::uint32_t kCurrentRules = 2;

/// How a verdict follows from the numbers recorded beside it (`rederive` in verdict_rule.hpp). `details` and
/// the members of ClauseVerdict are named as they are read. "Otherwise" is `pass` with `no_harm_only` where
/// that is set, else what the line says.
enum class VerdictRule : std::uint8_t {
  cannot,          ///< error: the measurement could not be made
  undecided,       ///< inconclusive: the data are too few for any test
  test,            ///< pass: details.p_proof ≤ alpha; violated: p_value ≤ alpha; otherwise inconclusive
  margin,          ///< as test, and pass needs lower > −threshold, violated needs upper < −threshold
  limits,          ///< pass: upper ≤ threshold; violated: lower > threshold; otherwise inconclusive
  arm_limits,      ///< pass: details.candidate_upper ≤ line of incumbent_lower; violated:
                   ///< details.candidate_lower > line of incumbent_upper; the line is threshold·incumbent
                   ///< for max_ratio, threshold + incumbent for max_delta, else the threshold
  census,          ///< violated: estimate beyond threshold; pass needs clusters ≥ details.least_units
  bound,           ///< pass: upper ≤ threshold; otherwise inconclusive
  e_value,         ///< violated: e_value ≥ details.e_harm_needed, or details.e_joint ≥ e_joint_needed;
                   ///< pass: details.e_proof ≥ e_proof_needed; otherwise inconclusive
  recovering,      ///< violated before, and details.clean_windows < clean_windows_needed or
                   ///< details.dwell_ms < dwell_needed_ms
  nonfinite,       ///< violated: details.nonfinite > 0
  count_at_least,  ///< pass: estimate ≥ threshold; otherwise inconclusive
  share_at_least,  ///< pass: estimate ≥ threshold; otherwise violated
  age_at_most,     ///< pass: estimate ≤ threshold; otherwise error
  bounded_test,    ///< as test, of a figure that is known by bounds: p_proof is of the bound that is worse for
                   ///< the clause and p_value of the better one
  bounded_census,  ///< as census, of such a figure: violated: details.harm_estimate beyond threshold; pass:
                   ///< details.proof_estimate within it and clusters ≥ details.least_units; either may be absent
};
[[nodiscard]] std::string_view to_string(VerdictRule rule);
[[nodiscard]] std::optional<VerdictRule> verdict_rule_from_name(std::string_view name);

/// A clause's verdict on the corpus or on one slice, with all that it followed from, so that it can
/// be recomputed from this record alone together with the measurement table's digest.
struct ClauseVerdict {
  std::string clause;  ///< "family.id"
  Severity severity = Severity::hard;
  SliceWhere where;  ///< empty = whole corpus or all traffic
  SliceRole role = SliceRole::corpus;
  Verdict verdict = Verdict::error;
  VerdictRule rule = VerdictRule::undecided;
  std::uint32_t rules = kCurrentRules;  ///< version of the rules that it was decided by
  std::uint64_t n = 0;         ///< rows, pairs or requests
  std::uint64_t clusters = 0;  ///< independent units
  std::optional<double> estimate;
  std::optional<double> lower, upper;  ///< one-sided limits at `alpha`
  std::optional<double> e_value;
  std::optional<double> p_value;    ///< of harm, for Holm
  std::optional<double> threshold;  ///< the limit that was applied
  std::string limit_kind;           ///< "max", "min", "max_ratio", …
  double alpha = 0;
  std::string method;  ///< e.g. "betting, cap 0.99", "cluster bootstrap-t", "census"
  bool approximate = false;
  bool no_harm_only = false;  ///< passed because not violated (require: no_harm)
  std::uint64_t seed = 0;
  std::map<std::string, double> details;  ///< further named figures (b, c, needed_clusters …)
  /// Digests of measurement tables beside the stage's own: "floor_train", "floor_inf".
  std::map<std::string, std::string> tables;
  std::string message;  ///< one or two plain sentences with the figures
};

/// The verdict of a stage: violated if a hard clause is; else error; else inconclusive; else pass.
/// Soft clauses and monitored-but-inconclusive slices are listed and do not block. Decided by version `rules`;
/// error when it is not known.
[[nodiscard]] Verdict combine(const std::vector<ClauseVerdict>& verdicts,
                              std::uint32_t rules = kCurrentRules);

/// JSON with the field names above; numbers that are not finite are the strings of
/// docs/design/measurement.md, "Numbers that are not finite".
[[nodiscard]] std::string to_json(const ClauseVerdict& verdict);
/// Reads what to_json writes. A member is a double or a count by its name, never by how its number is spelled:
/// JSON has one spelling for 3 and 3.0. Whole doubles of any size are read back exactly.
[[nodiscard]] Result<ClauseVerdict> clause_verdict_from_json(std::string_view json);
/// The role of a slice by its name.
[[nodiscard]] std::optional<SliceRole> slice_role_from_name(std::string_view name);

}  // namespace driftgate::schema
