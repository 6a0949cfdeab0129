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

/// The four verdicts, which are never merged (docs/design/statistics.md, "The four verdicts").
enum class Verdict : std::uint8_t { pass, violated, inconclusive, error };
[[nodiscard]] std::string_view to_string(Verdict verdict);
[[nodiscard]] std::optional<Verdict> verdict_from_name(std::string_view name);

/// The versions of the rules by which verdicts are decided (verdict_rule.hpp). New verdicts are decided by
/// kCurrentRules. A record without a version is one of kFirstRules: it was written before versions were
/// recorded.
inline constexpr std::uint32_t kFirstRules = 1;
inline constexpr std::uint32_t kCurrentRules = 3;

/// How a verdict follows from the numbers recorded with it (`rederive` in verdict_rule.hpp). Names without a
/// prefix are members of ClauseVerdict. For test, bounded_test, margin, limits, arm_limits and e_value,
/// "otherwise" is pass if `no_harm_only` is set. docs/evidence.md ("An entry") has the same table for writers
/// of verifiers.
enum class VerdictRule : std::uint8_t {
  cannot,     ///< error: the measurement could not be made
  undecided,  ///< inconclusive: the data are too few for any test
  test,  ///< pass: details.p_proof ≤ alpha; violated: p_value ≤ alpha; otherwise inconclusive. From version 3
         ///< on, where details has share_of_rows, pass also needs it to be at most details.tolerated_fraction
  margin,      ///< as test; pass also needs lower > −threshold, violated also needs upper < −threshold
  limits,      ///< pass: upper ≤ threshold; violated: lower > threshold; otherwise inconclusive
  arm_limits,  ///< pass: details.candidate_upper ≤ line(details.incumbent_lower); violated:
               ///< details.candidate_lower > line(details.incumbent_upper); otherwise inconclusive.
               ///< line(x) is threshold·x for max_ratio, threshold + x for max_delta, else the threshold
  census,      ///< violated: estimate beyond threshold; pass: within it and clusters ≥
               ///< details.least_units; otherwise inconclusive
  bound,       ///< pass: upper ≤ threshold; otherwise inconclusive
  e_value,     ///< violated: e_value ≥ details.e_harm_needed or details.e_joint ≥ details.e_joint_needed;
               ///< pass: details.e_proof ≥ details.e_proof_needed; otherwise inconclusive. From version 2
               ///< on, where details has e_blocks, e_value is label_part·e_label + blocks_part·e_blocks,
               ///< from version 3 on plus signs_part·e_signs where details has e_signs
  recovering,  ///< after a violation; violated: details.clean_windows < details.clean_windows_needed or
               ///< details.dwell_ms < details.dwell_needed_ms; otherwise inconclusive
  nonfinite,   ///< violated: details.nonfinite > 0; otherwise inconclusive
  count_at_least,  ///< pass: estimate ≥ threshold; otherwise inconclusive
  share_at_least,  ///< pass: estimate ≥ threshold; otherwise violated
  age_at_most,     ///< pass: estimate ≤ threshold; otherwise error
  bounded_test,  ///< as test, for a figure of which only bounds are known: p_proof belongs to the bound that
                 ///< is less favourable to the clause, p_value to the more favourable one
  bounded_census,  ///< as census, for such a figure: details.harm_estimate beyond the threshold is violated,
                   ///< details.proof_estimate is what must be within it; an infinite bound is absent
};
[[nodiscard]] std::string_view to_string(VerdictRule rule);
[[nodiscard]] std::optional<VerdictRule> verdict_rule_from_name(std::string_view name);

/// The verdict of a clause on all data or on one slice, with every number that it followed from: together
/// with the measurement table's digest, the record is enough to recompute it.
struct ClauseVerdict {
  std::string clause;  ///< address of the clause, "family.id"
  Severity severity = Severity::hard;
  SliceWhere where;  ///< empty: the whole corpus or all traffic
  SliceRole role = SliceRole::corpus;
  Verdict verdict = Verdict::error;
  VerdictRule rule = VerdictRule::undecided;
  std::uint32_t rules = kCurrentRules;  ///< the version of the rules that it was decided by
  std::uint64_t n = 0;                  ///< number of rows, pairs or requests
  std::uint64_t clusters = 0;           ///< number of independent units
  std::optional<double> estimate;
  std::optional<double> lower, upper;  ///< one-sided limits of the estimate, each at level 1 − alpha
  std::optional<double> e_value;       ///< against the hypothesis that the limit is kept
  std::optional<double> p_value;       ///< of the hypothesis that the limit is kept; used by Holm's procedure
  std::optional<double> threshold;     ///< the limit that was applied
  std::string limit_kind;              ///< "max", "min", "max_ratio" …
  double alpha = 0;
  std::string method;  ///< such as "betting, cap 0.99", "cluster bootstrap-t" or "census"
  bool approximate = false;
  /// Passed because no harm was shown, and no proof is asked for (require: no_harm).
  bool no_harm_only = false;
  std::uint64_t seed = 0;
  std::map<std::string, double> details;  ///< further numbers by name (b, c, needed_clusters …)
  /// Digests of the measurement tables that were used besides the stage's own, by name: "floor_train",
  /// "floor_inf".
  std::map<std::string, std::string> tables;
  std::string message;  ///< the verdict and its figures in plain sentences
};

/// The verdict of a stage by version `rules`: violated if any blocking verdict is, else error, else
/// inconclusive, else pass. Verdicts of soft clauses do not block, nor do inconclusive ones on monitored or
/// discovered slices, nor any on described ones. An unknown version gives error.
[[nodiscard]] Verdict combine(const std::vector<ClauseVerdict>& verdicts,
                              std::uint32_t rules = kCurrentRules);

/// Canonical JSON whose members are named as above. Numbers that are not finite are strings
/// (docs/design/measurement.md, "Numbers that are not finite").
[[nodiscard]] std::string to_json(const ClauseVerdict& verdict);
/// Reads what to_json writes. Whether a member is a double or a count follows from its name and not from its
/// spelling, since JSON spells 3 and 3.0 alike; whole doubles of any size are read back exactly. Error:
/// `invalid_document`.
[[nodiscard]] Result<ClauseVerdict> clause_verdict_from_json(std::string_view json);
[[nodiscard]] std::optional<SliceRole> slice_role_from_name(std::string_view name);

}  // namespace driftgate::schema
