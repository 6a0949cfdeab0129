#pragma once

#include <string>

#include "daemon/store/promotions/spending.hpp"
#include "daemon/store/registry/versions.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// What a run of this stage spends α on: the candidate's checkpoint and kernel identity under a contract.
[[nodiscard]] schema::Result<store::SpendingKey> spending_key(store::Store& store,
                                                              const store::VersionRow& candidate,
                                                              const std::string& contract,
                                                              const std::string& stage);

}  // namespace driftgate::pipeline
