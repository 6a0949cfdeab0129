#pragma once

#include "daemon/pipeline/service.hpp"
#include "daemon/store/registry/contracts.hpp"

namespace driftgate::pipeline {

/// Insight::explain_contract of a registered contract; takes up to seconds, for the simulated runs.
[[nodiscard]] schema::Result<View> contract_explanation(const store::ContractRow& row);
/// Insight::compare_contracts.
[[nodiscard]] schema::Result<View> contract_comparison(const store::ContractRow& from,
                                                       const store::ContractRow& to);

}  // namespace driftgate::pipeline
