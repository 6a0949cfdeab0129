#pragma once

#include <vector>

#include "daemon/api/routes.hpp"

namespace driftgate::api {

// Each adds the routes of one file of handlers, in the order of the reference.

void add_system_routes(std::vector<Route>& list);
void add_registry_routes(std::vector<Route>& list);
void add_contract_text_routes(std::vector<Route>& list);
void add_ladder_routes(std::vector<Route>& list);
void add_promotion_routes(std::vector<Route>& list);
void add_job_routes(std::vector<Route>& list);
void add_series_routes(std::vector<Route>& list);
void add_overview_routes(std::vector<Route>& list);
void add_recipe_routes(std::vector<Route>& list);
void add_schedule_routes(std::vector<Route>& list);
void add_evidence_routes(std::vector<Route>& list);
void add_audit_routes(std::vector<Route>& list);
void add_backup_routes(std::vector<Route>& list);
void add_token_routes(std::vector<Route>& list);
void add_session_routes(std::vector<Route>& list);

}  // namespace driftgate::api
