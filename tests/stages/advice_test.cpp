#include "stages/report/advice.hpp"

#include <doctest/doctest.h>

namespace driftgate::stages {
namespace {

schema::ClauseVerdict record(schema::VerdictRule rule, schema::Verdict verdict) {
  schema::ClauseVerdict out;
  out.clause = "numerical.kl";
  out.rule = rule;
  out.verdict = verdict;
  out.limit_kind = "max";
  out.threshold = 0.02;
  out.clusters = 100;
  return out;
}

bool says(const schema::ClauseVerdict& verdict, const char* text) {
  const std::string words = advice(verdict);
  INFO(words);
  return words.find(text) != std::string::npos;
}

TEST_CASE("a pass needs no advice") {
  CHECK(advice(record(schema::VerdictRule::test, schema::Verdict::pass)).empty());
}

TEST_CASE("an open mean says how many sequences would show it") {
  auto open = record(schema::VerdictRule::test, schema::Verdict::inconclusive);
  open.estimate = 0.01;
  open.upper = 0.03;  // twice the room, so four times the data
  CHECK(says(open, "about 400 independent sequences"));
  open.estimate = 0.021;
  CHECK(says(open, "itself beyond the limit"));
}

TEST_CASE("a violated mean says which limit these data would keep") {
  auto broken = record(schema::VerdictRule::test, schema::Verdict::violated);
  broken.estimate = 0.05;
  broken.upper = 0.06;
  CHECK(says(broken, "clearly under 0.02"));
  CHECK(says(broken, "would keep a max of 0.06"));
  broken.details["tolerated_fraction"] = 0.01;
  CHECK(says(broken, "clearly under 0.01"));
  CHECK_FALSE(says(broken, "would keep"));
}

TEST_CASE("missing sequences are counted whatever the rule") {
  auto few = record(schema::VerdictRule::undecided, schema::Verdict::inconclusive);
  few.details["missing_sequences"] = 12;
  few.where = {{"language", "de"}};
  CHECK(says(few, "12 more sequences on language=de"));
}

TEST_CASE("every rule that did not pass gives advice") {
  for (int i = 0; i < 14; ++i) {
    for (const auto verdict :
         {schema::Verdict::violated, schema::Verdict::inconclusive, schema::Verdict::error}) {
      CAPTURE(i);
      CHECK_FALSE(advice(record(static_cast<schema::VerdictRule>(i), verdict)).empty());
    }
  }
}

}  // namespace
}  // namespace driftgate::stages
