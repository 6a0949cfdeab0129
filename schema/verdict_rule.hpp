#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "schema/error.hpp"
#include "schema/verdict.hpp"

namespace driftgate::schema {

/// The `limit_kind` of a verdict that compares a slice with the rest of the corpus. Its threshold is 1
/// ("drifts more than the rest", which is reported) or the contract's `slices.discover.max_ratio`.
inline constexpr std::string_view kRatioToRest = "ratio_to_rest";

/// The settings of a contract's `slices.discover` on which the severity of verdicts on discovered slices
/// depends.
struct DiscoveryTerms {
  bool blocks = false;              ///< `action: block`
  std::optional<double> max_ratio;  ///< limit of a slice's figure over that of the rest of the corpus
};

/// One version of the rules by which verdicts follow from recorded numbers. Versions are added and never
/// changed or removed, since evidence of every version must remain verifiable. Code that depends on the rules
/// looks them up here by the version in the record.
struct RuleSet {
  std::uint32_t version = 0;
  std::string_view meaning;  ///< one sentence
  /// As the function `rederive` below.
  Result<Verdict> (*rederive)(const ClauseVerdict& recorded) = nullptr;
  /// The verdict of a stage that follows from the verdicts of its clauses.
  Verdict (*combine)(const std::vector<ClauseVerdict>& verdicts) = nullptr;
  /// The severity that `verdict` must have, where `of_clause` is the severity of its clause in the contract
  /// and `discovery` the terms of `slices.discover`, if the contract has that. std::nullopt for a verdict
  /// that cannot occur under such a contract.
  std::optional<Severity> (*severity)(const ClauseVerdict& verdict, Severity of_clause,
                                      const std::optional<DiscoveryTerms>& discovery) = nullptr;
};

/// All versions, from the oldest to kCurrentRules.
[[nodiscard]] std::span<const RuleSet> rule_sets();
/// nullptr for a version that this program does not know.
[[nodiscard]] const RuleSet* find_rules(std::uint32_t version);

/// The verdict that follows from the recorded numbers by the recorded rule of the recorded version; the
/// recorded verdict itself is not looked at. A violation that Holm's procedure does not reject among many
/// tests (details.holm_rejected = 0) is error if the resampling was too coarse for their number
/// (details.replicates_wanted), else pass with no_harm_only, else inconclusive. Errors: `corrupt` for a
/// number that the rule needs and the record lacks, `unsupported` for a version that this program does not
/// know.
[[nodiscard]] Result<Verdict> rederive(const ClauseVerdict& recorded);

/// Replaces each verdict that does not follow from its own record by an error with an explanation. A fault of
/// this program must neither let a checkpoint through nor write evidence that an auditor would refuse.
void enforce_rules(std::vector<ClauseVerdict>& verdicts);

}  // namespace driftgate::schema
