#pragma once

#include <cstdint>
#include <string>

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"

namespace driftgate::stages {

/// The number with four significant digits.
[[nodiscard]] std::string figure(double value);
/// The number with separators, such as "12,345".
[[nodiscard]] std::string count_text(std::uint64_t value);
/// A share as a percentage: 0.95 becomes "95%".
[[nodiscard]] std::string percent(double share);
/// " on language=de"; empty for the whole corpus or all traffic.
[[nodiscard]] std::string on_slice(const schema::SliceWhere& where);
/// The subject of a clause in words: "mean tv", "p99_9 logit_span", "outcome correct", "reward bound per
/// token".
[[nodiscard]] std::string subject_text(const schema::Clause& clause);
/// Of what a quantile clause limits the share: "rows with", "rows in an average sequence with", "sequences
/// with a mean".
[[nodiscard]] std::string_view share_of(schema::QuantileOver over);
/// An inconclusive verdict on this clause and slice, without figures.
[[nodiscard]] schema::ClauseVerdict begin_verdict(const schema::Clause& clause,
                                                  const schema::SliceWhere& where, schema::SliceRole role,
                                                  double alpha, std::uint64_t seed);
/// The verdict turned into an error with this reason.
[[nodiscard]] schema::ClauseVerdict error_verdict(schema::ClauseVerdict verdict, std::string why);

}  // namespace driftgate::stages
