#pragma once

#include "daemon/api/call.hpp"

namespace driftgate::api {

// system_handlers.cpp
net::Response get_health(Context& context, const Call& call);
net::Response get_ready(Context& context, const Call& call);
net::Response get_metrics(Context& context, const Call& call);
net::Response get_openapi(Context& context, const Call& call);
net::Response get_contract_schema(Context& context, const Call& call);
net::Response get_entry_schema(Context& context, const Call& call);
net::Response get_whoami(Context& context, const Call& call);

// registry_handlers.cpp
net::Response post_contract(Context& context, const Call& call);
net::Response lint_contract(Context& context, const Call& call);
net::Response list_contracts(Context& context, const Call& call);
net::Response get_contract(Context& context, const Call& call);
net::Response post_kernel(Context& context, const Call& call);
net::Response list_kernels(Context& context, const Call& call);
net::Response get_kernel(Context& context, const Call& call);
net::Response post_engine(Context& context, const Call& call);
net::Response list_engines(Context& context, const Call& call);
net::Response get_engine(Context& context, const Call& call);
net::Response post_model(Context& context, const Call& call);
net::Response list_models(Context& context, const Call& call);
net::Response get_model(Context& context, const Call& call);
net::Response get_model_route(Context& context, const Call& call);
net::Response lift_hold(Context& context, const Call& call);

// promotion_handlers.cpp
net::Response post_promotion(Context& context, const Call& call);
net::Response list_promotions(Context& context, const Call& call);
net::Response get_promotion(Context& context, const Call& call);
net::Response get_report(Context& context, const Call& call);
net::Response what_if(Context& context, const Call& call);
net::Response approve_promotion(Context& context, const Call& call);
net::Response waive_promotion(Context& context, const Call& call);
net::Response abort_promotion(Context& context, const Call& call);
net::Response rollback_promotion(Context& context, const Call& call);
net::Response pause_promotion(Context& context, const Call& call);
net::Response resume_promotion(Context& context, const Call& call);
net::Response redact_promotion(Context& context, const Call& call);
net::Response stream_promotion(Context& context, const Call& call);

// ladder_handlers.cpp
net::Response list_blocks(Context& context, const Call& call);
net::Response lift_block(Context& context, const Call& call);
net::Response list_webhooks(Context& context, const Call& call);
net::Response test_webhook(Context& context, const Call& call);
net::Response enable_webhook(Context& context, const Call& call);
// schedule_handlers.cpp
net::Response post_schedule(Context& context, const Call& call);
net::Response list_schedules(Context& context, const Call& call);
net::Response get_schedule(Context& context, const Call& call);
net::Response put_schedule(Context& context, const Call& call);
net::Response delete_schedule(Context& context, const Call& call);
net::Response pause_schedule(Context& context, const Call& call);
net::Response resume_schedule(Context& context, const Call& call);
net::Response next_of_schedule(Context& context, const Call& call);

// evidence_handlers.cpp
net::Response list_evidence(Context& context, const Call& call);
net::Response get_entry(Context& context, const Call& call);
net::Response get_checkpoint(Context& context, const Call& call);
net::Response get_proof(Context& context, const Call& call);
net::Response get_consistency(Context& context, const Call& call);
net::Response get_log_key(Context& context, const Call& call);

// bundle_handlers.cpp
net::Response get_bundle(Context& context, const Call& call);
net::Response export_evidence(Context& context, const Call& call);

// audit_handlers.cpp
net::Response get_audit_at(Context& context, const Call& call);
net::Response get_audit_population(Context& context, const Call& call);
net::Response get_audit_sample(Context& context, const Call& call);
net::Response get_audit_exceptions(Context& context, const Call& call);

// backup_handlers.cpp
net::Response post_backup(Context& context, const Call& call);

// token_handlers.cpp
net::Response post_token(Context& context, const Call& call);
net::Response list_tokens(Context& context, const Call& call);
net::Response delete_token(Context& context, const Call& call);

}  // namespace driftgate::api
