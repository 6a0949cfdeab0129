#pragma once

#include "schema/verdict.hpp"

namespace driftgate::schema {

/// Reads a clause verdict from either of its two encodings: a JSON document (schema/verdict.cpp) or the body
/// of an evidence entry (daemon/evidence/verify/clause_verdict_of.cpp). `Members` reads one encoding member
/// by member and keeps the first fault. It has the functions text, flag, count, number, seed, version, texts
/// and numbers, each of which takes a member's name, and refuse(name, why).
template <typename Members>
[[nodiscard]] ClauseVerdict read_clause_verdict(Members& members) {
  ClauseVerdict verdict;
  verdict.clause = members.text("clause");
  verdict.rules = members.version("rules");
  const auto severity = members.text("severity");
  if (severity != "hard" && severity != "soft") members.refuse("severity", "must be hard or soft");
  verdict.severity = severity == "soft" ? Severity::soft : Severity::hard;
  const auto role = slice_role_from_name(members.text("role"));
  if (!role) members.refuse("role", "is not a role of a slice");
  verdict.role = role.value_or(verdict.role);
  const auto named = verdict_from_name(members.text("verdict"));
  if (!named) members.refuse("verdict", "must be pass, violated, inconclusive or error");
  verdict.verdict = named.value_or(verdict.verdict);
  const auto rule = verdict_rule_from_name(members.text("rule"));
  if (!rule) members.refuse("rule", "is not a rule by which verdicts follow");
  verdict.rule = rule.value_or(verdict.rule);
  verdict.where = members.texts("where", true);
  verdict.n = members.count("n");
  verdict.clusters = members.count("clusters");
  verdict.limit_kind = members.text("limit_kind");
  verdict.alpha = members.number("alpha", true).value_or(0);
  verdict.method = members.text("method");
  verdict.approximate = members.flag("approximate");
  verdict.no_harm_only = members.flag("no_harm_only");
  verdict.seed = members.seed("seed");  // a text: 64 bits do not fit a JSON number
  verdict.details = members.numbers("details");
  verdict.tables = members.texts("tables", false);
  verdict.message = members.text("message");
  verdict.estimate = members.number("estimate");
  verdict.lower = members.number("lower");
  verdict.upper = members.number("upper");
  verdict.e_value = members.number("e_value");
  verdict.p_value = members.number("p_value");
  verdict.threshold = members.number("threshold");
  return verdict;
}

}  // namespace driftgate::schema
