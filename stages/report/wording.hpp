#pragma once

#include <cstdint>
#include <string>

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"

namespace driftgate::stages {

/// Four significant digits, without a needless exponent.
[[nodiscard]] std::string figure(double value);
/// "12,345".
[[nodiscard]] std::string count_text(std::uint64_t value);
/// 0.95 → "95%".
[[nodiscard]] std::string percent(double share);
/// " on language=de", or nothing for the whole.
[[nodiscard]] std::string on_slice(const schema::SliceWhere& where);
/// "mean tv", "p99_9 logit_span", "outcome correct", "reward bound per token".
[[nodiscard]] std::string subject_text(const schema::Clause& clause);
/// A verdict with the clause's and the slice's fields filled in and nothing decided.
[[nodiscard]] schema::ClauseVerdict begin_verdict(const schema::Clause& clause,
                                                  const schema::SliceWhere& where, schema::SliceRole role,
                                                  double alpha, std::uint64_t seed);
/// Turns `verdict` into an error with this reason.
[[nodiscard]] schema::ClauseVerdict error_verdict(schema::ClauseVerdict verdict, std::string why);

}  // namespace driftgate::stages
