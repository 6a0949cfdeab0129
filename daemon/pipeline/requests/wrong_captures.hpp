#pragma once

#include <string>
#include <vector>

#include "daemon/pipeline/requests/request.hpp"
#include "daemon/pipeline/settings.hpp"
#include "schema/contract/contract.hpp"

namespace driftgate::pipeline {

/// What speaks against the captures of one stage that are there already: a file that is no capture, one of
/// another kernel, checkpoint or corpus than the promotion's, and captures of different vocabularies. Only
/// heads are read. What an adapter will make is checked when it is there, before it is measured; what cannot
/// be opened is left to check_source. `checkpoint`: the digest of the candidate's; `at`: the JSON pointer of
/// the stage's captures.
[[nodiscard]] std::vector<schema::Error> wrong_captures(const StageCaptures& captures,
                                                        const Settings& settings,
                                                        const schema::Contract& contract,
                                                        const std::string& checkpoint, const std::string& at);

}  // namespace driftgate::pipeline
