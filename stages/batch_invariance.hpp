#pragma once

#include <cstdint>
#include <string_view>

#include "stages/clauses/clause_test.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// Decides a clause on `batch_variant_rate`: the share of prompts whose greedy tokens differ between batch 1
/// and batch N of the inference kernel. On captures a prompt is a sequence of the noise floor of K_inf; it
/// varies if the greedy token differs at any captured position. Exact binomial limits (Clopper & Pearson,
/// Biometrika 1934), or betting where several sequences share a cluster. The verdict is error without a
/// `max`, without a noise floor of K_inf (the message tells how to make one), and if the floor has no
/// sequence with finite logits on this slice.
[[nodiscard]] schema::ClauseVerdict decide_batch_variance(const ClauseData& data,
                                                          const schema::Clause& clause,
                                                          schema::ClauseVerdict verdict);

/// Fills in the verdict on the share of prompts that vary: `test` against `max`. `where_from` tells in the
/// message how the prompts were compared ("generated alone and in a batch").
void apply_batch_variance(const MeanTest& test, std::uint64_t variant, std::string_view where_from,
                          const schema::Clause& clause, schema::ClauseVerdict& verdict);

}  // namespace driftgate::stages
