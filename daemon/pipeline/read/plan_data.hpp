#pragma once

#include <string>
#include <vector>

#include "daemon/pipeline/requests/request.hpp"
#include "schema/contract/contract.hpp"
#include "schema/contract/spending.hpp"

namespace driftgate::pipeline {

/// Whether the data given can decide a clause on one slice.
struct DataFit {
  std::string clause, slice;  ///< slice empty: the whole corpus
  schema::Stage stage{};
  std::uint64_t have = 0;                ///< sequences, or sequences with both outcomes
  std::uint64_t least = 0;               ///< fewer cannot pass even in the best case
  std::optional<std::uint64_t> at_half;  ///< to pass 8 times of 10 when the truth is at half the limit
  std::string sentence;                  ///< what a person should know
};

/// Clauses of the two fixed-data stages that the corpora of `request` cannot decide, or would not usually
/// decide with the truth at half the limit: they end as inconclusive. A corpus that cannot be read is one
/// sentence of its own. Sizes are those of these runs. Corpora are counted, captures are not opened.
[[nodiscard]] std::vector<DataFit> unfit_data(const schema::Contract& contract,
                                              const PromotionRequest& request,
                                              const std::vector<std::string>& roots, std::uint64_t seed,
                                              const schema::Runs& runs);

}  // namespace driftgate::pipeline
