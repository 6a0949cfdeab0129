#include "schema/verdict.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace driftgate::schema {
namespace {

ClauseVerdict verdict_of(Verdict verdict, Severity severity = Severity::hard,
                         SliceRole role = SliceRole::corpus) {
  ClauseVerdict out;
  out.verdict = verdict;
  out.severity = severity;
  out.role = role;
  return out;
}

TEST_CASE("a stage is violated before it is an error, and an error before it is inconclusive") {
  const auto pass = verdict_of(Verdict::pass), violated = verdict_of(Verdict::violated);
  const auto inconclusive = verdict_of(Verdict::inconclusive), error = verdict_of(Verdict::error);
  CHECK(combine({}) == Verdict::pass);
  CHECK(combine({pass, pass}) == Verdict::pass);
  CHECK(combine({pass, inconclusive}) == Verdict::inconclusive);
  CHECK(combine({inconclusive, error, pass}) == Verdict::error);
  CHECK(combine({error, inconclusive, violated}) == Verdict::violated);
}

TEST_CASE("soft clauses never block") {
  for (const Verdict verdict : {Verdict::violated, Verdict::error, Verdict::inconclusive}) {
    CHECK(combine({verdict_of(verdict, Severity::soft)}) == Verdict::pass);
  }
}

TEST_CASE("a monitored slice blocks when it is harmed and not when it lacks data") {
  CHECK(combine({verdict_of(Verdict::inconclusive, Severity::hard, SliceRole::monitored)}) == Verdict::pass);
  CHECK(combine({verdict_of(Verdict::violated, Severity::hard, SliceRole::monitored)}) == Verdict::violated);
  CHECK(combine({verdict_of(Verdict::inconclusive, Severity::hard, SliceRole::critical)}) ==
        Verdict::inconclusive);
  CHECK(combine({verdict_of(Verdict::violated, Severity::hard, SliceRole::described)}) == Verdict::pass);
}

TEST_CASE("a clause verdict comes back from its JSON with every figure") {
  ClauseVerdict verdict;
  verdict.clause = "statistical.slice-tv";
  verdict.severity = Severity::soft;
  verdict.where = {{"domain", "code"}, {"language", "de"}};
  verdict.role = SliceRole::critical;
  verdict.verdict = Verdict::violated;
  verdict.n = 1234;
  verdict.clusters = 56;
  verdict.estimate = 0.1 + 0.2;
  verdict.lower = -std::numeric_limits<double>::infinity();
  verdict.e_value = 1e300;
  verdict.threshold = 5e-324;
  verdict.limit_kind = "max";
  verdict.alpha = 0.05;
  verdict.method = "betting, cap 0.99";
  verdict.approximate = true;
  verdict.no_harm_only = true;
  verdict.seed = std::numeric_limits<std::uint64_t>::max();
  verdict.details = {{"b", 3}, {"nan", std::nan("")}};
  verdict.tables = {{"floor_inf", "sha256:ab"}};
  verdict.message = "a \"quoted\" sentence";

  const std::string text = to_json(verdict);
  const auto back = clause_verdict_from_json(text);
  REQUIRE(back.has_value());
  CHECK(to_json(*back) == text);
  CHECK(back->estimate == verdict.estimate);
  CHECK(back->lower == verdict.lower);
  CHECK_FALSE(back->upper.has_value());
  CHECK(back->seed == verdict.seed);
  CHECK(back->where == verdict.where);
  CHECK(back->role == SliceRole::critical);
  CHECK(std::isnan(back->details.at("nan")));
}

TEST_CASE("a stored verdict without a version of the rules is of the first, and states it from then on") {
  auto text = to_json(ClauseVerdict{});
  const std::string stated = "\"rules\":" + std::to_string(kCurrentRules) + ",";
  REQUIRE(text.find(stated) != std::string::npos);
  const auto without = text.erase(text.find(stated), stated.size());
  const auto back = clause_verdict_from_json(without);
  REQUIRE(back.has_value());
  CHECK(back->rules == kFirstRules);
  for (const char* wrong : {R"({"rules":"1",)", R"({"rules":-1,)", R"({"rules":1.5,)"}) {
    CHECK_FALSE(clause_verdict_from_json(wrong + without.substr(1)).has_value());
  }
}

TEST_CASE("JSON that is not a clause verdict is refused with the name of the member") {
  std::string text = to_json(ClauseVerdict{});
  CHECK(clause_verdict_from_json(text).has_value());
  text.replace(text.find("\"corpus\""), 8, "\"nobody\"");
  CHECK(clause_verdict_from_json(text).error().message.find("role") != std::string::npos);
  CHECK(clause_verdict_from_json("{}").error().message.find("clause is missing") != std::string::npos);
  CHECK_FALSE(clause_verdict_from_json("[]").has_value());
}

}  // namespace
}  // namespace driftgate::schema
