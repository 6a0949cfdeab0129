#pragma once

#include <string>

#include "daemon/pipeline/service.hpp"

namespace driftgate::api {

/// What is counted of all models together: promotions, verdicts, rollbacks, alarms, entries; no name of a
/// model.
[[nodiscard]] std::string event_metrics(const pipeline::ServiceFigures& figures);
/// Whether this scrape has figures by model, which need a token.
[[nodiscard]] std::string scrape_metrics(bool authenticated);
/// Every model as it stands, the tests of its newest decisions, and what its users got: for those who may
/// read about models.
[[nodiscard]] std::string model_metrics(const pipeline::ServiceFigures& figures);

}  // namespace driftgate::api
