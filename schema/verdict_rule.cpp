#include "schema/verdict_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace driftgate::schema {
namespace {

/// Reads the numbers that a rule needs and keeps the name of the first that is missing.
class Numbers {
 public:
  explicit Numbers(const ClauseVerdict& recorded) : recorded_(recorded) {}

  double detail(const std::string& name) {
    const auto found = recorded_.details.find(name);
    return found == recorded_.details.end() ? lacking("details." + name) : found->second;
  }
  [[nodiscard]] double detail_or(const std::string& name, double otherwise) const {
    const auto found = recorded_.details.find(name);
    return found == recorded_.details.end() ? otherwise : found->second;
  }
  [[nodiscard]] bool has(const std::string& name) const { return recorded_.details.contains(name); }
  double member(const std::optional<double>& value, const char* name) {
    return value ? *value : lacking(name);
  }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  double lacking(std::string name) {
    if (missing_.empty()) missing_ = std::move(name);
    return 0;
  }

  const ClauseVerdict& recorded_;
  std::string missing_;
};

Verdict decide(bool violated, bool pass, bool no_harm_only, Verdict otherwise = Verdict::inconclusive) {
  if (violated) return Verdict::violated;
  return pass || no_harm_only ? Verdict::pass : otherwise;
}

Verdict by_test(const ClauseVerdict& v, Numbers& numbers) {
  // From version 3 on, the rows of an average sequence do not pass over those of all sequences together.
  const bool share = v.rules < 3 || !numbers.has("share_of_rows") ||
                     numbers.detail("share_of_rows") <= numbers.detail("tolerated_fraction");
  const bool pass = numbers.detail("p_proof") <= v.alpha && share;
  const bool violated = numbers.member(v.p_value, "p_value") <= v.alpha;
  if (v.rule != VerdictRule::margin) return decide(violated && !pass, pass, v.no_harm_only);
  const double threshold = numbers.member(v.threshold, "threshold");
  const bool kept = numbers.member(v.lower, "lower") > -threshold;
  const bool broken = numbers.member(v.upper, "upper") < -threshold;
  return decide(violated && broken, pass && kept, v.no_harm_only);
}

double line(const ClauseVerdict& v, Numbers& numbers, const char* incumbent) {
  const double threshold = numbers.member(v.threshold, "threshold");
  if (v.limit_kind == "max_ratio") return threshold * numbers.detail(incumbent);
  if (v.limit_kind == "max_delta") return threshold + numbers.detail(incumbent);
  return threshold;
}

Verdict by_arms(const ClauseVerdict& v, Numbers& numbers) {
  // Without limits of both arms there is nothing to hold against each other.
  if (!numbers.has("candidate_lower")) return decide(false, false, v.no_harm_only);
  const bool violated = numbers.detail("candidate_lower") > line(v, numbers, "incumbent_upper");
  const bool pass = numbers.has("candidate_upper") &&
                    (v.limit_kind == "max" || numbers.has("incumbent_lower")) &&
                    numbers.detail("candidate_upper") <= line(v, numbers, "incumbent_lower");
  return decide(violated, pass, v.no_harm_only);
}

Verdict by_census(const ClauseVerdict& v, Numbers& numbers) {
  const double value = numbers.member(v.estimate, "estimate");
  const double threshold = numbers.member(v.threshold, "threshold");
  const bool within = v.limit_kind == "min" ? value >= threshold : value <= threshold;
  const bool enough = static_cast<double>(v.clusters) >= numbers.detail("least_units");
  return decide(!within, within && enough, false);
}

Verdict by_bounded_census(const ClauseVerdict& v, Numbers& numbers) {
  const double threshold = numbers.member(v.threshold, "threshold");
  const bool enough = static_cast<double>(v.clusters) >= numbers.detail("least_units");
  const auto within = [&](const std::string& name) {
    const double value = numbers.detail(name);
    return v.limit_kind == "min" ? value >= threshold : value <= threshold;
  };
  const bool beyond = numbers.has("harm_estimate") && !within("harm_estimate");
  return decide(beyond, numbers.has("proof_estimate") && within("proof_estimate") && enough, false);
}

/// From version 2 on, the e-value of a test of failure rates follows from its parts: two, from version 3 on
/// three where signs of blocks are compared.
double harm_e_value(const ClauseVerdict& v, Numbers& numbers) {
  if (v.rules < 2 || !numbers.has("e_blocks")) return numbers.member(v.e_value, "e_value");
  const double two = numbers.detail("label_part") * numbers.detail("e_label") +
                     numbers.detail("blocks_part") * numbers.detail("e_blocks");
  if (v.rules < 3 || !numbers.has("e_signs")) return two;
  return two + numbers.detail("signs_part") * numbers.detail("e_signs");
}

Verdict by_e_value(const ClauseVerdict& v, Numbers& numbers) {
  const bool alone = harm_e_value(v, numbers) >= numbers.detail("e_harm_needed");
  const bool joint = numbers.has("e_joint") && numbers.detail("e_joint") >= numbers.detail("e_joint_needed");
  const bool proven = numbers.has("e_proof") && numbers.detail("e_proof") >= numbers.detail("e_proof_needed");
  return decide(alone || joint, proven, v.no_harm_only);
}

Verdict by_limits(const ClauseVerdict& v, Numbers& numbers) {
  const double threshold = numbers.member(v.threshold, "threshold");
  const bool within = numbers.member(v.upper, "upper") <= threshold;
  if (v.rule == VerdictRule::bound) return decide(false, within, false);
  return decide(numbers.member(v.lower, "lower") > threshold, within, v.no_harm_only);
}

Verdict by_figure(const ClauseVerdict& v, Numbers& numbers) {
  const double value = numbers.member(v.estimate, "estimate");
  const double threshold = numbers.member(v.threshold, "threshold");
  if (v.rule == VerdictRule::age_at_most) return value <= threshold ? Verdict::pass : Verdict::error;
  if (value >= threshold) return Verdict::pass;
  return v.rule == VerdictRule::share_at_least ? Verdict::violated : Verdict::inconclusive;
}

Verdict by_recovery(Numbers& numbers) {
  const bool clean = numbers.detail("clean_windows") >= numbers.detail("clean_windows_needed");
  const bool dwelt = numbers.detail("dwell_ms") >= numbers.detail("dwell_needed_ms");
  return clean && dwelt ? Verdict::inconclusive : Verdict::violated;
}

Verdict by_rule(const ClauseVerdict& v, Numbers& numbers) {
  switch (v.rule) {
    case VerdictRule::cannot:
      return Verdict::error;
    case VerdictRule::undecided:
      return Verdict::inconclusive;
    case VerdictRule::test:
    case VerdictRule::margin:
    case VerdictRule::bounded_test:
      return by_test(v, numbers);
    case VerdictRule::limits:
    case VerdictRule::bound:
      return by_limits(v, numbers);
    case VerdictRule::arm_limits:
      return by_arms(v, numbers);
    case VerdictRule::census:
      return by_census(v, numbers);
    case VerdictRule::bounded_census:
      return by_bounded_census(v, numbers);
    case VerdictRule::e_value:
      return by_e_value(v, numbers);
    case VerdictRule::recovering:
      return by_recovery(numbers);
    case VerdictRule::nonfinite:
      return numbers.detail("nonfinite") > 0 ? Verdict::violated : Verdict::inconclusive;
    case VerdictRule::count_at_least:
    case VerdictRule::share_at_least:
    case VerdictRule::age_at_most:
      return by_figure(v, numbers);
  }
  return Verdict::error;
}

Result<Verdict> rederive_1(const ClauseVerdict& recorded) {
  Numbers numbers(recorded);
  const Verdict verdict = by_rule(recorded, numbers);
  if (!numbers.missing().empty()) {
    return fail(ErrorCode::corrupt,
                fmt::format("the verdict of {} follows by the rule {}, whose number {} is not recorded",
                            recorded.clause, to_string(recorded.rule), numbers.missing()));
  }
  const bool unproven = verdict == Verdict::violated && numbers.detail_or("holm_rejected", 1) == 0;
  if (!unproven) return verdict;
  if (numbers.has("replicates_wanted")) return Verdict::error;
  return recorded.no_harm_only ? Verdict::pass : Verdict::inconclusive;
}

// Monitored and discovered slices look for harm: they block when they found it, not when they lack data.
bool blocks(const ClauseVerdict& item) {
  if (item.severity == Severity::soft || item.role == SliceRole::described) return false;
  const bool watched = item.role == SliceRole::monitored || item.role == SliceRole::discovered;
  return !(watched && item.verdict == Verdict::inconclusive);
}

Verdict combine_1(const std::vector<ClauseVerdict>& verdicts) {
  const auto any = [&](Verdict wanted) {
    return std::any_of(verdicts.begin(), verdicts.end(),
                       [&](const ClauseVerdict& item) { return item.verdict == wanted && blocks(item); });
  };
  for (const Verdict verdict : {Verdict::violated, Verdict::error, Verdict::inconclusive}) {
    if (any(verdict)) return verdict;
  }
  return Verdict::pass;
}

/// What the search for slices found is reported, and blocks only if the contract says `action: block`.
std::optional<Severity> severity_1(const ClauseVerdict& verdict, Severity of_clause,
                                   const std::optional<DiscoveryTerms>& discovery) {
  if (verdict.role == SliceRole::described) return std::nullopt;
  if (verdict.role != SliceRole::discovered) return of_clause;
  constexpr std::array kOfTheSearch{VerdictRule::cannot, VerdictRule::undecided, VerdictRule::e_value,
                                    VerdictRule::nonfinite};
  const bool searched = std::ranges::find(kOfTheSearch, verdict.rule) != kOfTheSearch.end();
  if (!discovery || !searched) return std::nullopt;
  return discovery->blocks ? of_clause : Severity::soft;
}

/// As 1; and a slice that drifts more than the rest of the corpus is reported, and blocks only where it does
/// so by more than the contract's `max_ratio`.
std::optional<Severity> severity_2(const ClauseVerdict& verdict, Severity of_clause,
                                   const std::optional<DiscoveryTerms>& discovery) {
  const bool against_rest = verdict.role == SliceRole::discovered && verdict.rule == VerdictRule::test &&
                            verdict.limit_kind == kRatioToRest;
  if (!against_rest) return severity_1(verdict, of_clause, discovery);
  if (!discovery || !verdict.threshold) return std::nullopt;
  if (verdict.threshold == discovery->max_ratio) return of_clause;
  if (*verdict.threshold == 1) return Severity::soft;
  return std::nullopt;
}

constexpr std::array kRuleSets{
    RuleSet{1, "the table of rules in docs/evidence.md", rederive_1, combine_1, severity_1},
    RuleSet{
        2,
        "as 1; e-values of failure rates by blocks of time have two parts, slices may be compared with the "
        "rest of the corpus, and means are decided exactly unless the contract asks otherwise",
        rederive_1, combine_1, severity_2},
    RuleSet{
        3,
        "as 2; a quantile over the rows of an average sequence passes only where the share of all rows is "
        "within the limit too, and e-values of failure rates may have a third part, by signs of blocks",
        rederive_1, combine_1, severity_2},
};
static_assert(kRuleSets.front().version == kFirstRules && kRuleSets.back().version == kCurrentRules);

}  // namespace

std::span<const RuleSet> rule_sets() {
  return kRuleSets;
}

const RuleSet* find_rules(std::uint32_t version) {
  const auto found = std::ranges::find(kRuleSets, version, &RuleSet::version);
  return found == kRuleSets.end() ? nullptr : &*found;
}

Result<Verdict> rederive(const ClauseVerdict& recorded) {
  if (const RuleSet* rules = find_rules(recorded.rules)) return rules->rederive(recorded);
  return fail(ErrorCode::unsupported,
              fmt::format("the verdict of {} was decided by version {} of the rules, which this program does "
                          "not know: use a newer one",
                          recorded.clause, recorded.rules));
}

Verdict combine(const std::vector<ClauseVerdict>& verdicts, std::uint32_t rules) {
  const RuleSet* set = find_rules(rules);
  return set == nullptr ? Verdict::error : set->combine(verdicts);
}

void enforce_rules(std::vector<ClauseVerdict>& verdicts) {
  for (ClauseVerdict& verdict : verdicts) {
    const auto follows = rederive(verdict);
    if (follows && *follows == verdict.verdict) continue;
    verdict.message +=
        follows ? fmt::format(" The recorded numbers give {} and not {}: this is a fault of driftgate.",
                              to_string(*follows), to_string(verdict.verdict))
                : " This is a fault of driftgate: " + follows.error().message + ".";
    verdict.verdict = Verdict::error;
    verdict.rule = VerdictRule::cannot;
  }
}

}  // namespace driftgate::schema
