#pragma once

#include <cstdint>
#include <string_view>

#include "stages/clauses/clause_test.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// Decides `batch_variant_rate`: the share of prompts whose greedy tokens differ between batch 1 and batch N
/// of the inference kernel. On captures a prompt is a sequence of the inf floor, and it varies when the
/// greedy token of any captured position differs. Exact binomial (Clopper & Pearson, Biometrika 1934); by
/// betting where several sequences share a cluster. Without an inf floor an error that says how to make one.
[[nodiscard]] schema::ClauseVerdict decide_batch_variance(const ClauseData& data,
                                                          const schema::Clause& clause,
                                                          schema::ClauseVerdict verdict);

/// The threshold rule on the share of prompts that vary. `what` begins the message: "of the 200 prompts …".
void apply_batch_variance(const MeanTest& test, std::uint64_t variant, std::string_view where_from,
                          const schema::Clause& clause, schema::ClauseVerdict& verdict);

}  // namespace driftgate::stages
