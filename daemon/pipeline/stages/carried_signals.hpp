#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/store/store.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "stages/canary/canary.hpp"

namespace driftgate::pipeline {

/// Puts the O clauses that shadow-runtime decided for this promotion, newest attempt, into `context` with
/// their age: a canary mirrors nothing and goes by them. One that was not decided there (and was waived) is
/// left out.
schema::Result<void> carry_signals(store::Store& store, const schema::Contract& contract,
                                   std::string_view promotion, std::int64_t now_us,
                                   stages::CanaryContext& context);

}  // namespace driftgate::pipeline
