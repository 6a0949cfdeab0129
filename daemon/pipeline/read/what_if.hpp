#pragma once

#include <stop_token>
#include <string>

#include "daemon/pipeline/service.hpp"
#include "daemon/store/store.hpp"
#include "schema/contract/contract.hpp"

namespace driftgate::pipeline {

/// Decides the stored evidence of a promotion again under another contract, runs nothing and changes nothing:
/// the measurement tables and the mirrored pairs of each stage's newest attempt go through the stages as they
/// would have, at the α that the attempt spent. A canary keeps no row of any request: its clauses with the
/// same limit keep their verdict, a latency clause is held against the new limit by the recorded confidence
/// limits, and every other one is an error that says so. Quantile clauses whose limit was not counted when
/// the table was made are errors too.
/// `stop` is looked at between two stages: then it is `unavailable`. What would pass is inconclusive when the
/// contract demands a stage that the promotion never began.
/// {"promotion", "contract": {"before", "after"}, "verdict", "not_begun": [stage…], "stages": [{"stage",
/// "attempt", "before", "after", "changes": [{"clause", "slice", "before", "after", "message"}], "same",
/// "notes"}]}.
[[nodiscard]] schema::Result<View> what_if(store::Store& store, const std::string& promotion,
                                           const schema::Contract& contract,
                                           const std::stop_token& stop = {});

}  // namespace driftgate::pipeline
