#include "schema/verdict_rule.hpp"

#include <doctest/doctest.h>

namespace driftgate::schema {
namespace {

ClauseVerdict record(VerdictRule rule) {
  ClauseVerdict out;
  out.clause = "numerical.kl";
  out.rule = rule;
  out.alpha = 0.05;
  out.threshold = 0.01;
  out.limit_kind = "max";
  return out;
}

Verdict follows(const ClauseVerdict& recorded) {
  const auto verdict = rederive(recorded);
  REQUIRE_MESSAGE(verdict.has_value(), verdict.error().message);
  return *verdict;
}

TEST_CASE("a test passes on its proof, is violated on its harm and else is inconclusive") {
  ClauseVerdict v = record(VerdictRule::test);
  v.details["p_proof"] = 0.05;
  v.p_value = 0.9;
  CHECK(follows(v) == Verdict::pass);
  v.details["p_proof"] = 0.051;
  CHECK(follows(v) == Verdict::inconclusive);
  v.p_value = 0.05;
  CHECK(follows(v) == Verdict::violated);
  v.details["holm_rejected"] = 0;
  CHECK(follows(v) == Verdict::inconclusive);
  v.details["replicates_wanted"] = 20'000;
  CHECK(follows(v) == Verdict::error);
}

TEST_CASE("limits decide by the threshold itself") {
  ClauseVerdict v = record(VerdictRule::limits);
  v.lower = 0.002;
  v.upper = 0.01;
  CHECK(follows(v) == Verdict::pass);
  v.upper = 0.0101;
  CHECK(follows(v) == Verdict::inconclusive);
  v.lower = 0.0101;
  CHECK(follows(v) == Verdict::violated);
  v.rule = VerdictRule::bound;
  CHECK(follows(v) == Verdict::inconclusive);
}

TEST_CASE("a census needs its units to pass and one event to be violated") {
  ClauseVerdict v = record(VerdictRule::census);
  v.estimate = 0.01;
  v.clusters = 9;
  v.details["least_units"] = 10;
  CHECK(follows(v) == Verdict::inconclusive);
  v.clusters = 10;
  CHECK(follows(v) == Verdict::pass);
  v.estimate = 0.02;
  CHECK(follows(v) == Verdict::violated);
  v.limit_kind = "min";
  CHECK(follows(v) == Verdict::pass);
}

TEST_CASE("a census of bounds is violated by the better bound and passed by the worse one") {
  ClauseVerdict v = record(VerdictRule::bounded_census);
  v.clusters = 10;
  v.details = {{"least_units", 10}, {"harm_estimate", 0.005}};
  CHECK(follows(v) == Verdict::inconclusive);  // no upper bound
  v.details["proof_estimate"] = 0.03;
  CHECK(follows(v) == Verdict::inconclusive);
  v.details["proof_estimate"] = 0.01;
  CHECK(follows(v) == Verdict::pass);
  v.clusters = 9;
  CHECK(follows(v) == Verdict::inconclusive);
  v.details["harm_estimate"] = 0.02;
  CHECK(follows(v) == Verdict::violated);
  v.limit_kind = "min";
  v.clusters = 10;
  CHECK(follows(v) == Verdict::pass);  // at least, and both bounds are
}

TEST_CASE("a test of bounds follows as a test does") {
  ClauseVerdict v = record(VerdictRule::bounded_test);
  v.p_value = 1;
  v.details["p_proof"] = 0.2;
  CHECK(follows(v) == Verdict::inconclusive);
  v.no_harm_only = true;
  CHECK(follows(v) == Verdict::pass);
  v.no_harm_only = false;
  v.details["p_proof"] = 0.001;
  CHECK(follows(v) == Verdict::pass);
  v.details["p_proof"] = 1;
  v.p_value = 0.001;
  CHECK(follows(v) == Verdict::violated);
}

TEST_CASE("two arms are held against each other by the kind of the limit") {
  ClauseVerdict v = record(VerdictRule::arm_limits);
  v.threshold = 2;
  v.details = {
      {"candidate_lower", 5}, {"candidate_upper", 6}, {"incumbent_lower", 3}, {"incumbent_upper", 4}};
  v.limit_kind = "max";
  CHECK(follows(v) == Verdict::violated);
  v.limit_kind = "max_ratio";
  CHECK(follows(v) == Verdict::pass);
  v.limit_kind = "max_delta";
  CHECK(follows(v) == Verdict::inconclusive);
  v.no_harm_only = true;
  CHECK(follows(v) == Verdict::pass);
}

TEST_CASE("e-values need their evidence alone or together") {
  ClauseVerdict v = record(VerdictRule::e_value);
  v.e_value = 99;
  v.details = {{"e_harm_needed", 100}, {"e_proof", 20}, {"e_proof_needed", 20}};
  CHECK(follows(v) == Verdict::pass);
  v.details["e_proof"] = 19;
  CHECK(follows(v) == Verdict::inconclusive);
  v.details["e_joint"] = v.details["e_joint_needed"] = 100;
  CHECK(follows(v) == Verdict::violated);
}

TEST_CASE("a number that the rule needs and the record lacks is named") {
  for (const VerdictRule rule :
       {VerdictRule::test, VerdictRule::margin, VerdictRule::limits, VerdictRule::bound, VerdictRule::census,
        VerdictRule::bounded_test, VerdictRule::bounded_census, VerdictRule::e_value, VerdictRule::recovering,
        VerdictRule::nonfinite, VerdictRule::count_at_least}) {
    CAPTURE(to_string(rule));
    const auto verdict = rederive(record(rule));
    REQUIRE_FALSE(verdict.has_value());
    CHECK(verdict.error().message.find("is not recorded") != std::string::npos);
  }
}

TEST_CASE("a verdict that does not follow from its record becomes an error") {
  std::vector<ClauseVerdict> verdicts{record(VerdictRule::limits)};
  verdicts[0].lower = verdicts[0].upper = 0.5;
  verdicts[0].verdict = Verdict::pass;
  enforce_rules(verdicts);
  CHECK(verdicts[0].verdict == Verdict::error);
  CHECK(verdicts[0].message.find("fault of driftgate") != std::string::npos);
  CHECK(follows(verdicts[0]) == Verdict::error);
}

TEST_CASE("every version of the rules is found by its number, in order, and an unknown one decides nothing") {
  std::uint32_t before = 0;
  for (const RuleSet& rules : rule_sets()) {
    CHECK(rules.version == before + 1);
    CHECK(find_rules(rules.version) == &rules);
    CHECK_FALSE(rules.meaning.empty());
    before = rules.version;
  }
  CHECK(before == kCurrentRules);
  ClauseVerdict v = record(VerdictRule::cannot);
  v.rules = kCurrentRules + 1;
  const auto verdict = rederive(v);
  REQUIRE_FALSE(verdict.has_value());
  CHECK(verdict.error().code == ErrorCode::unsupported);
  CHECK(combine({}, kCurrentRules + 1) == Verdict::error);
}

TEST_CASE("every rule has a name that is read back") {
  for (int i = 0; i < 16; ++i) {
    const auto rule = static_cast<VerdictRule>(i);
    CHECK(verdict_rule_from_name(to_string(rule)) == rule);
  }
  CHECK_FALSE(verdict_rule_from_name("hope").has_value());
}

}  // namespace
}  // namespace driftgate::schema
