#include "daemon/api/routes.hpp"

#include "daemon/api/handlers/handlers.hpp"

namespace driftgate::api {
namespace {

std::vector<Route> make_routes() {
  std::vector<Route> list;
  add_system_routes(list);
  add_registry_routes(list);
  add_contract_text_routes(list);
  add_ladder_routes(list);
  add_recipe_routes(list);
  add_promotion_routes(list);
  add_series_routes(list);
  add_job_routes(list);
  add_overview_routes(list);
  add_schedule_routes(list);
  add_evidence_routes(list);
  add_audit_routes(list);
  add_backup_routes(list);
  add_token_routes(list);
  add_session_routes(list);
  return list;
}

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> list = make_routes();
  return list;
}

}  // namespace driftgate::api
