#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/routes.hpp"

namespace driftgate::api {
namespace {

using auth::Scope;

/// Adds to the route that was listed last.
class Last {
 public:
  explicit Last(Route& route) : route_(route) {}
  Last& answer(int status, std::string_view schema, std::string_view text,
               std::string_view media_type = "application/json") {
    route_.answers.push_back({status, schema, text, media_type});
    return *this;
  }
  Last& query(std::string_view name, std::string_view type, std::string_view text) {
    route_.query.push_back({name, type, text});
    return *this;
  }
  Last& paged() {
    query("after", "string", "cursor: `next` of the page before");
    return query("limit", "integer", "items on a page");
  }
  Last& body(std::string_view schema) {
    route_.request_schema = schema;
    return *this;
  }
  Last& yaml() {
    route_.yaml = true;
    return *this;
  }
  Last& idempotent() {
    route_.idempotent = true;
    return *this;
  }
  Last& waits() {
    route_.waits = true;
    return *this;
  }

 private:
  Route& route_;
};

/// Routes that share a tag.
class Group {
 public:
  Group(std::vector<Route>& list, std::string_view tag) : list_(list), tag_(tag) {}
  Last get(std::string_view path, std::string_view id, std::string_view summary, std::optional<Scope> scope,
           HandlerFunction handler) {
    return add("GET", path, id, summary, scope, handler);
  }
  Last post(std::string_view path, std::string_view id, std::string_view summary, std::optional<Scope> scope,
            HandlerFunction handler) {
    return add("POST", path, id, summary, scope, handler);
  }
  Last add(std::string_view method, std::string_view path, std::string_view id, std::string_view summary,
           std::optional<Scope> scope, HandlerFunction handler) {
    Route route;
    route.method = method;
    route.path = path;
    route.id = id;
    route.tag = tag_;
    route.summary = summary;
    route.scope = scope;
    route.handler = handler;
    list_.push_back(std::move(route));
    return Last(list_.back());
  }

 private:
  std::vector<Route>& list_;
  std::string_view tag_;
};

void add_system_routes(std::vector<Route>& list) {
  Group system(list, "system");
  system.get("/healthz", "health", "The process answers", {}, get_health).answer(200, "Health", "alive");
  system.get("/readyz", "ready", "The daemon can do its work", {}, get_ready)
      .answer(200, "Ready", "ready")
      .answer(503, "Ready", "not ready; `checks` says why");
  system.get("/metrics", "metrics", "Figures for Prometheus", {}, get_metrics)
      .answer(200, "", "Prometheus text format 0.0.4", "text/plain");
  system.get("/openapi.json", "openapi", "This document", {}, get_openapi)
      .answer(200, "Document", "OpenAPI 3.1");
  system
      .get("/schemas/contract.json", "contractSchema", "JSON Schema of the contract", {}, get_contract_schema)
      .answer(200, "Document", "JSON Schema");
  system
      .get("/schemas/entries/{kind}", "entrySchema", "JSON Schema of a kind of evidence entry: KIND.json", {},
           get_entry_schema)
      .answer(200, "Document", "JSON Schema");
  system.get("/v1/whoami", "whoami", "Name and scopes of the token", Scope::viewer, get_whoami)
      .answer(200, "Principal", "who asks");
}

void add_contract_routes(std::vector<Route>& list) {
  Group contracts(list, "contracts");
  contracts
      .post("/v1/contracts", "registerContract", "Register a contract (YAML or JSON)", Scope::promoter,
            post_contract)
      .body("ContractDocument")
      .yaml()
      .idempotent()
      .answer(201, "Contract", "registered")
      .answer(200, "Contract", "the same document was registered before");
  contracts
      .post("/v1/contracts/lint", "lintContract", "Check a contract without registering it", Scope::viewer,
            lint_contract)
      .body("ContractDocument")
      .yaml()
      .answer(200, "LintReport", "faults and warnings");
  contracts
      .get("/v1/contracts", "listContracts", "All contracts, oldest first", Scope::viewer, list_contracts)
      .paged()
      .answer(200, "ContractPage", "a page");
  contracts
      .get("/v1/contracts/{contract}", "getContract", "One contract, by digest or name", Scope::viewer,
           get_contract)
      .answer(200, "Contract", "the contract");
}

void add_registry_routes(std::vector<Route>& list) {
  Group kernels(list, "kernels");
  kernels.post("/v1/kernels", "registerKernel", "Register a kernel", Scope::promoter, post_kernel)
      .body("KernelRequest")
      .idempotent()
      .answer(201, "Kernel", "registered")
      .answer(200, "Kernel", "the same kernel was registered before");
  kernels.get("/v1/kernels", "listKernels", "All kernels", Scope::viewer, list_kernels)
      .paged()
      .answer(200, "KernelPage", "a page");
  kernels.get("/v1/kernels/{name}", "getKernel", "One kernel", Scope::viewer, get_kernel)
      .answer(200, "Kernel", "the kernel");

  Group engines(list, "engines");
  engines
      .post("/v1/engines", "registerEngine", "Register an engine and probe what it can do", Scope::promoter,
            post_engine)
      .body("EngineRequest")
      .idempotent()
      .answer(201, "Engine", "registered")
      .answer(200, "Engine", "the same engine was registered before");
  engines.get("/v1/engines", "listEngines", "All engines", Scope::viewer, list_engines)
      .paged()
      .answer(200, "EnginePage", "a page");
  engines.get("/v1/engines/{name}", "getEngine", "One engine with its abilities", Scope::viewer, get_engine)
      .answer(200, "Engine", "the engine");
}

void add_model_routes(std::vector<Route>& list) {
  Group models(list, "models");
  models.post("/v1/models", "createModel", "Install a model's first version", Scope::operator_, post_model)
      .body("ModelRequest")
      .idempotent()
      .answer(201, "Model", "installed")
      .answer(200, "Model", "the same model was installed before");
  models.get("/v1/models", "listModels", "All models", Scope::viewer, list_models)
      .paged()
      .answer(200, "ModelPage", "a page");
  models
      .get("/v1/models/{name}", "getModel", "One model: who serves it, its hold, its route", Scope::viewer,
           get_model)
      .answer(200, "Model", "the model");
  models
      .get("/v1/models/{name}/route", "getRoute", "The route as desired and as read back", Scope::viewer,
           get_model_route)
      .answer(200, "RouteState", "the route");
  models
      .post("/v1/models/{name}/lift-hold", "liftHold", "Let promotions of the model run again",
            Scope::operator_, lift_hold)
      .body("ReasonRequest")
      .answer(200, "Model", "the model");
}

void add_ladder_routes(std::vector<Route>& list) {
  Group blocks(list, "blocks");
  blocks
      .get("/v1/blocks", "listBlocks", "What may not be promoted again, and what was lifted", Scope::viewer,
           list_blocks)
      .paged()
      .answer(200, "BlockPage", "a page, oldest first");
  blocks
      .post("/v1/blocks/{id}/lift", "liftBlock", "Let the pair be promoted again under the contract",
            Scope::operator_, lift_block)
      .body("ReasonRequest")
      .answer(200, "Block", "the block");

  Group webhooks(list, "webhooks");
  webhooks
      .get("/v1/webhooks", "listWebhooks", "The endpoints of the settings and what became of their messages",
           Scope::operator_, list_webhooks)
      .answer(200, "WebhookPage", "all endpoints");
  webhooks
      .post("/v1/webhooks/{name}/test", "testWebhook", "Send a message of type driftgate.test",
            Scope::operator_, test_webhook)
      .answer(200, "Webhook", "put into the outbox");
  webhooks
      .post("/v1/webhooks/{name}/enable", "enableWebhook", "Send to an endpoint again that answered 410",
            Scope::operator_, enable_webhook)
      .answer(200, "Webhook", "enabled");
}

void add_promotion_routes(std::vector<Route>& list) {
  Group promotions(list, "promotions");
  promotions
      .post("/v1/promotions", "requestPromotion", "Ask for a promotion; `Prefer: wait=N` waits for its end",
            Scope::promoter, post_promotion)
      .query("dry_run", "boolean", "plan only, change nothing")
      .body("PromotionRequest")
      .idempotent()
      .waits()
      .answer(201, "Promotion", "accepted")
      .answer(200, "Plan", "dry run: stages, clauses, windows, needed samples");
  promotions
      .get("/v1/promotions", "listPromotions", "Promotions, newest first", Scope::viewer, list_promotions)
      .query("model", "string", "of this model")
      .query("state", "string", "in this state")
      .paged()
      .answer(200, "PromotionPage", "a page");
  promotions
      .get("/v1/promotions/{id}", "getPromotion", "One promotion; `Prefer: wait=N` waits for its end",
           Scope::viewer, get_promotion)
      .waits()
      .answer(200, "Promotion", "the promotion");
  promotions
      .get("/v1/promotions/{id}/stages/{stage}/report", "getReport",
           "A stage's report: verdicts, bounds, slices, worst rows", Scope::viewer, get_report)
      .answer(200, "Document", "the report");
  promotions
      .post("/v1/promotions/{id}/what-if", "whatIf",
            "Its stored evidence decided again under another contract; changes nothing", Scope::viewer, what_if)
      .body("ContractDocument")
      .yaml()
      .answer(200, "Document", "which verdicts change, by stage");
  promotions
      .get("/v1/promotions/{id}/events", "streamPromotion",
           "Its states, shares and progress as they come, and to auditors its evidence; resumes after Last-Event-ID",
           Scope::viewer, stream_promotion)
      .query("after", "integer", "as Last-Event-ID, for clients that cannot send it")
      .answer(200, "", "server-sent events; ids are evidence sequence numbers", "text/event-stream");
  promotions
      .post("/v1/promotions/{id}/approve", "approvePromotion",
            "Approve the step that waits, naming the evidence that was read", Scope::approver,
            approve_promotion)
      .body("ApprovalRequest")
      .answer(200, "Promotion", "the promotion as it is now");
  promotions
      .post("/v1/promotions/{id}/waive", "waivePromotion",
            "Waive an inconclusive clause; it takes two people, neither the requester", Scope::approver,
            waive_promotion)
      .body("WaiverRequest")
      .answer(200, "Promotion", "the promotion as it is now");
}

void add_intervention_routes(std::vector<Route>& list) {
  struct Intervention {
    std::string_view path, id, summary;
    HandlerFunction handler;
  };
  const Intervention interventions[] = {
      {"/v1/promotions/{id}/abort", "abortPromotion", "End it: weight 0 first", abort_promotion},
      {"/v1/promotions/{id}/rollback", "rollbackPromotion", "Restore the version before it and set a hold",
       rollback_promotion},
      {"/v1/promotions/{id}/pause", "pausePromotion", "Freeze weights; harm tests run on", pause_promotion},
      {"/v1/promotions/{id}/resume", "resumePromotion", "Go on after a pause", resume_promotion},
      {"/v1/promotions/{id}/redact", "redactPromotion",
       "Destroy what is kept of single requests of an ended promotion", redact_promotion}};
  Group promotions(list, "promotions");
  for (const Intervention& it : interventions)
    promotions.post(it.path, it.id, it.summary, Scope::operator_, it.handler)
        .body("ReasonRequest")
        .answer(200, "Promotion", "the promotion as it is now");
}

void add_schedule_routes(std::vector<Route>& list) {
  Group schedules(list, "schedules");
  schedules
      .post("/v1/schedules", "createSchedule", "Ask for promotions by a cron expression", Scope::promoter,
            post_schedule)
      .body("ScheduleRequest")
      .idempotent()
      .answer(201, "Schedule", "created");
  schedules.get("/v1/schedules", "listSchedules", "All schedules, by name", Scope::viewer, list_schedules)
      .paged()
      .answer(200, "SchedulePage", "a page");
  schedules
      .get("/v1/schedules/{name}", "getSchedule", "One schedule and what came of its last fire times",
           Scope::viewer, get_schedule)
      .answer(200, "Schedule", "the schedule; its ETag is what a change must name");
  schedules
      .get("/v1/schedules/{name}/next", "nextOfSchedule", "Its next fire times", Scope::viewer,
           next_of_schedule)
      .query("count", "integer", "how many, 5 without")
      .answer(200, "ScheduleTimes", "in UTC and in its zone");
  schedules
      .add("PUT", "/v1/schedules/{name}", "replaceSchedule",
           "Change it; needs If-Match. Who changes it counts as requester of its promotions", Scope::promoter,
           put_schedule)
      .body("ScheduleRequest")
      .answer(200, "Schedule", "the schedule as it is now");
  schedules
      .add("DELETE", "/v1/schedules/{name}", "deleteSchedule", "Delete it; needs If-Match", Scope::promoter,
           delete_schedule)
      .answer(204, "", "deleted");
  schedules
      .post("/v1/schedules/{name}/pause", "pauseSchedule", "Stop it from firing; needs If-Match",
            Scope::operator_, pause_schedule)
      .answer(200, "Schedule", "the schedule as it is now");
  schedules
      .post("/v1/schedules/{name}/resume", "resumeSchedule",
            "Let it fire again; what it missed is not made up for; needs If-Match", Scope::operator_,
            resume_schedule)
      .answer(200, "Schedule", "the schedule as it is now");
}

void add_evidence_routes(std::vector<Route>& list) {
  Group evidence(list, "evidence");
  Last entries = evidence.get("/v1/evidence", "listEvidence", "Entries that match all given filters",
                              Scope::auditor, list_evidence);
  for (const std::string_view name : {"model", "promotion", "stage", "checkpoint", "contract", "kernel",
                                      "kind", "actor", "clause", "verdict"})
    entries.query(name, "string", "");
  entries.query("from_us", "integer", "time, µs since the epoch, inclusive")
      .query("to_us", "integer", "time, µs since the epoch, exclusive")
      .query("order", "string", "oldest (default) or newest")
      .paged()
      .answer(200, "EvidencePage", "a page");
  evidence
      .get("/v1/evidence/export", "exportEvidence", "All entries between two times, as a bundle that can be verified",
           Scope::auditor, export_evidence)
      .query("from_us", "integer", "time, µs since the epoch, inclusive")
      .query("to_us", "integer", "time, µs since the epoch, exclusive")
      .query("older", "integer", "size of a head seen before: adds the proof that it is continued")
      .answer(200, "", "JSON Lines, sent as they are made", "application/jsonl");
  evidence
      .get("/v1/promotions/{id}/bundle", "getBundle",
           "A promotion's entries, proofs, signed head and attestations, as a bundle that can be verified",
           Scope::auditor, get_bundle)
      .query("older", "integer", "size of a head seen before: adds the proof that it is continued")
      .query("tables", "boolean", "add measurement tables and reports")
      .answer(200, "", "JSON Lines, sent as they are made", "application/jsonl");
  evidence.get("/v1/evidence/{seq}", "getEntry", "The exact bytes of one entry", Scope::auditor, get_entry)
      .answer(200, "Entry", "the entry");
  evidence
      .get("/v1/log/checkpoint", "getCheckpoint", "Signed head (C2SP tlog-checkpoint)", Scope::viewer,
           get_checkpoint)
      .answer(200, "", "signed note", "text/plain");
  evidence
      .get("/v1/log/proof/{seq}", "getProof", "Inclusion proof (RFC 9162, 2.1.3)", Scope::auditor, get_proof)
      .answer(200, "Proof", "the proof");
  evidence
      .get("/v1/log/consistency", "getConsistency", "Consistency proof (RFC 9162, 2.1.4)", Scope::auditor,
           get_consistency)
      .query("from", "integer", "size of the older tree")
      .query("to", "integer", "size of the newer tree")
      .answer(200, "Consistency", "the proof");
  evidence.get("/v1/log/key", "getLogKey", "Verifier key of the signed heads", Scope::viewer, get_log_key)
      .answer(200, "", "name+id+key", "text/plain");
}

void add_audit_routes(std::vector<Route>& list) {
  Group audit(list, "audit");
  audit.get("/v1/audit/at", "auditAt", "What served a model at a time, and why", Scope::auditor, get_audit_at)
      .query("model", "string", "the model's name")
      .query("time_us", "integer", "time, µs since the epoch")
      .answer(200, "ServedAt", "versions with their shares, and the entries that brought them there");
  audit
      .get("/v1/audit/population", "auditPopulation",
           "Everything that came to serve in a time, with both heads and the consistency proof between them",
           Scope::auditor, get_audit_population)
      .query("from_us", "integer", "inclusive")
      .query("to_us", "integer", "exclusive")
      .query("model", "string", "of this model only")
      .paged()
      .answer(200, "AuditPopulation", "a page");
  Last sample = audit.get("/v1/audit/sample", "auditSample",
                          "The matching entries with the smallest SHA-256(seed:seq): reproducible by anyone",
                          Scope::auditor, get_audit_sample);
  sample.query("seed", "string", "any text; choose it before you look")
      .query("count", "integer", "entries, 25 without")
      .query("size", "integer", "draw from the first so many entries of the log, all without");
  for (const std::string_view name : {"model", "promotion", "stage", "checkpoint", "contract", "kernel",
                                      "kind", "actor", "clause", "verdict"})
    sample.query(name, "string", "");
  sample.query("from_us", "integer", "inclusive")
      .query("to_us", "integer", "exclusive")
      .answer(200, "AuditSample", "the sample, in its order");
  audit
      .get(
          "/v1/audit/exceptions", "auditExceptions",
          "Where people went around the usual way: waivers, refused decisions on one's own request, versions "
          "without a promotion, ends by hand, lifted holds and blocks, redactions",
          Scope::auditor, get_audit_exceptions)
      .query("model", "string", "")
      .query("promotion", "string", "")
      .query("from_us", "integer", "inclusive")
      .query("to_us", "integer", "exclusive")
      .paged()
      .answer(200, "EvidencePage", "a page, oldest first");
}

void add_token_routes(std::vector<Route>& list) {
  Group tokens(list, "tokens");
  tokens.post("/v1/tokens", "issueToken", "Issue a token; the bearer is shown once", Scope::admin, post_token)
      .body("TokenRequest")
      .answer(201, "IssuedToken", "issued");
  tokens.get("/v1/tokens", "listTokens", "All tokens, without secrets", Scope::admin, list_tokens)
      .answer(200, "TokenPage", "newest first");
  tokens.add("DELETE", "/v1/tokens/{id}", "revokeToken", "Revoke a token", Scope::admin, delete_token)
      .answer(204, "", "revoked");
}

void add_backup_routes(std::vector<Route>& list) {
  Group system(list, "system");
  system
      .post("/v1/backups", "makeBackup", "Copy the database and the signed head into the backup folder",
            Scope::operator_, post_backup)
      .body("BackupRequest")
      .answer(201, "Backup", "made");
}

std::vector<Route> make_routes() {
  std::vector<Route> list;
  add_system_routes(list);
  add_contract_routes(list);
  add_registry_routes(list);
  add_model_routes(list);
  add_ladder_routes(list);
  add_promotion_routes(list);
  add_intervention_routes(list);
  add_schedule_routes(list);
  add_evidence_routes(list);
  add_audit_routes(list);
  add_backup_routes(list);
  add_token_routes(list);
  return list;
}

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> list = make_routes();
  return list;
}

}  // namespace driftgate::api
