#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "schema/error.hpp"
#include "schema/verdict.hpp"

namespace driftgate::schema {

/// The `limit_kind` of a verdict on a slice against the rest of the corpus. Its threshold is 1 ("drifts more
/// than the rest", reported) or what `slices.discover.max_ratio` says.
inline constexpr std::string_view kRatioToRest = "ratio_to_rest";

/// What `slices.discover` of a contract says of verdicts on what was found.
struct DiscoveryTerms {
  bool blocks = false;              ///< action: block
  std::optional<double> max_ratio;  ///< against the rest of the corpus
};

/// One version of the rules by which verdicts follow from what is recorded. Versions are added, never changed
/// or taken away: evidence of every version is verified for as long as it is kept. Whatever a later version
/// decides differently is a member here and is looked up by the version of the record that it is asked about.
struct RuleSet {
  std::uint32_t version = 0;
  std::string_view meaning;  ///< one sentence
  /// The verdict that follows from a clause's recorded numbers.
  Result<Verdict> (*rederive)(const ClauseVerdict& recorded) = nullptr;
  /// The verdict of a stage that follows from its clauses.
  Verdict (*combine)(const std::vector<ClauseVerdict>& verdicts) = nullptr;
  /// How severe `verdict` is of a clause that the contract calls `of_clause`. `discovery`: what
  /// `slices.discover` says, nothing where the contract has none. Nothing for a verdict that no such contract
  /// can have.
  std::optional<Severity> (*severity)(const ClauseVerdict& verdict, Severity of_clause,
                                      const std::optional<DiscoveryTerms>& discovery) = nullptr;
};

/// All versions, the oldest first; the last is kCurrentRules.
[[nodiscard]] std::span<const RuleSet> rule_sets();
/// Nothing for a version that this program does not know.
[[nodiscard]] const RuleSet* find_rules(std::uint32_t version);

/// The verdict that follows from the recorded numbers by the recorded rule of the recorded version, without
/// looking at `verdict.verdict`: what an auditor recomputes. A violation among many tests that Holm's
/// procedure does not reject (details.holm_rejected = 0) is inconclusive (a pass with no_harm_only), or an
/// error when the resampling was too coarse for the family (details.replicates_wanted). `corrupt` names a
/// number that the rule needs and the record lacks; `unsupported` a version that this program does not know.
[[nodiscard]] Result<Verdict> rederive(const ClauseVerdict& recorded);

/// Turns each verdict that does not follow from its own record into an error that says so: a fault of this
/// program must never let a checkpoint through, nor write evidence that an auditor would refuse.
void enforce_rules(std::vector<ClauseVerdict>& verdicts);

}  // namespace driftgate::schema
