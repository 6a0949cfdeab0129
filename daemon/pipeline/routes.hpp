#pragma once

#include <string>
#include <vector>

#include "daemon/pipeline/context.hpp"

namespace driftgate::pipeline {

// Keeping the data plane at the desired routes.

/// Makes the data plane hold the model's desired route, and records that it was read back. True when it holds
/// it; else it is tried again later.
bool ensure_route_held(Context& context, const std::string& model);
/// The same of many at once: one request to the data plane, one look at what it holds, one transaction.
void ensure_routes_held(Context& context, const std::vector<std::string>& names);
/// Checks that the data plane still holds what is desired: it may have reverted or been restarted.
void check_routes_held(Context& context);
/// Routes that name this base URL are applied once more: what its engine asks for has changed.
void apply_routes_again(Context& context, const std::string& base_url);
/// Models whose route is to be applied now.
[[nodiscard]] std::vector<std::string> models_to_route(const Context& context);

}  // namespace driftgate::pipeline
