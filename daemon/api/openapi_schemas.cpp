#include "daemon/api/openapi_schemas.hpp"

namespace driftgate::api {

namespace {

constexpr std::string_view kSchemas = R"json({
"Problem": {"type": "object", "required": ["type", "title", "status", "code", "detail"],
  "description": "RFC 9457. `code` is stable; `detail` says what, where and what to do.",
  "properties": {"type": {"type": "string"}, "title": {"type": "string"},
    "status": {"type": "integer", "minimum": 400, "maximum": 599},
    "code": {"type": "string", "pattern": "^[a-z][a-z_]*$"}, "detail": {"type": "string"},
    "errors": {"type": "array", "items": {"type": "object", "required": ["detail"], "properties": {
      "detail": {"type": "string"}, "pointer": {"type": "string", "description": "JSON pointer to the fault"},
      "where": {"type": "string"}}}}}},
"Health": {"type": "object", "required": ["status"], "properties": {"status": {"type": "string", "enum": ["ok"]}}},
"Ready": {"type": "object", "required": ["ready", "checks"], "properties": {"ready": {"type": "boolean"},
  "checks": {"type": "array", "items": {"type": "object", "required": ["name", "ok", "detail"], "properties": {
    "name": {"type": "string"}, "ok": {"type": "boolean"}, "detail": {"type": "string"}}}}}},
"Document": {"type": "object"},
"Digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
"Scope": {"type": "string", "enum": ["viewer", "promoter", "approver", "operator", "auditor", "admin"]},
"Cursor": {"type": ["string", "null"], "description": "pass it as `after` to get the next page; null on the last page"},
"Principal": {"type": "object", "required": ["name", "scopes", "token"], "properties": {"name": {"type": "string"},
  "scopes": {"type": "array", "items": {"$ref": "#/components/schemas/Scope"}}, "token": {"type": "string"}}},

"ContractDocument": {"type": "object", "description": "a KernelContract; see /schemas/contract.json"},
"LintReport": {"type": "object", "required": ["valid", "digest", "faults", "warnings"], "properties": {
  "valid": {"type": "boolean"}, "digest": {"type": ["string", "null"]},
  "faults": {"type": "array", "items": {"$ref": "#/components/schemas/Fault"}},
  "warnings": {"type": "array", "items": {"$ref": "#/components/schemas/Fault"}}}},
"Fault": {"type": "object", "required": ["line", "column", "pointer", "message"], "properties": {
  "line": {"type": "integer"}, "column": {"type": "integer"}, "pointer": {"type": "string"},
  "message": {"type": "string"}}},
"Contract": {"type": "object", "required": ["digest", "name"], "properties": {
  "digest": {"$ref": "#/components/schemas/Digest"}, "name": {"type": "string"}}},

"KernelRequest": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}},
  "description": "a kernel's description; its canonical JSON's digest is its identity"},
"Kernel": {"type": "object", "required": ["name", "digest"], "properties": {"name": {"type": "string"},
  "digest": {"$ref": "#/components/schemas/Digest"}}},
"EngineRequest": {"type": "object", "required": ["name", "url", "kernel", "checkpoint"], "additionalProperties": false,
  "properties": {"name": {"type": "string"},
    "url": {"type": "string", "description": "http[s]://host:port[/path]; /v1 at its end is left out"},
    "kernel": {"type": "string"},
    "checkpoint": {"type": "object", "additionalProperties": false, "properties": {
      "uri": {"type": "string", "description": "folder below a configured root, hashed at registration"},
      "digest": {"$ref": "#/components/schemas/Digest"}}},
    "max_requests_per_second": {"type": "integer", "minimum": 1,
      "description": "how much it can serve; checked before traffic moves to it as a fallback"},
    "key_file": {"type": "string", "description": "file below engines.files_dir with the key that it asks for; the key itself is never stored or shown"},
    "key_header": {"type": "string", "description": "header of the key; absent: Authorization, as a bearer token"},
    "ca_file": {"type": "string", "description": "file below engines.files_dir with the CAs to trust for its https URL; absent: the system's"}}},
"Engine": {"type": "object", "required": ["name", "url", "kernel"], "properties": {"name": {"type": "string"},
  "url": {"type": "string"}, "kernel": {"type": "string"}, "max_requests_per_second": {"type": ["integer", "null"]},
  "key_file": {"type": ["string", "null"]}, "key_header": {"type": ["string", "null"]},
  "ca_file": {"type": ["string", "null"]},
  "ca_digest": {"type": ["string", "null"], "description": "of the CA file when the engine was registered"}}},
"ModelRequest": {"type": "object", "required": ["name", "engine", "reason"], "additionalProperties": false,
  "properties": {"name": {"type": "string"}, "engine": {"type": "string"}, "reason": {"type": "string"}}},
"Model": {"type": "object", "required": ["name", "incumbent", "promotion", "hold"], "properties": {
  "name": {"type": "string"}, "incumbent": {"type": ["object", "null"]}, "promotion": {"type": ["string", "null"]},
  "hold": {"type": ["object", "null"]}, "route": {"type": ["object", "null"]},
  "guard": {"type": ["object", "null"], "description": "what watches the version since its promotion: the newest guard",
    "properties": {"id": {"type": "string"}, "promotion": {"type": "string"}, "version": {"type": "string"},
      "armed": {"type": "boolean"}, "since_us": {"type": "integer"}, "ended_us": {"type": ["integer", "null"]},
      "reason": {"type": "string"}, "alarms": {"type": "integer"},
      "mean_time_between_false_alarms_ms": {"type": "integer"},
      "watches": {"type": "array", "items": {"type": "object"}}, "failures_cluster": {"type": "boolean"},
      "probes": {"type": ["object", "null"]}, "identity": {"type": "object"},
      "rescoring": {"type": ["object", "null"], "description": "live answers that the training kernel's engine scores again",
        "properties": {"why_none": {"type": ["string", "null"]}, "reference": {"type": ["string", "null"]},
          "share_bp": {"type": "integer"}, "answers": {"type": "integer"}, "filtered": {"type": "integer"},
          "alarming": {"type": "boolean"}, "newest_us": {"type": ["integer", "null"]}, "unanswered": {"type": "integer"},
          "unanswered_why": {"type": "string"}, "tokens_of_day": {"type": "integer"},
          "budget_tokens": {"type": "integer"}, "watches": {"type": "array", "items": {"type": "object"}}}},
      "orders": {"type": "object"}}}}},
"RouteState": {"type": "object", "required": ["desired", "observed", "agree"], "properties": {
  "desired": {"type": ["object", "null"]}, "observed": {"type": ["object", "null"]}, "agree": {"type": "boolean"}}},
"ReasonRequest": {"type": "object", "required": ["reason"], "additionalProperties": false, "properties": {
  "reason": {"type": "string", "minLength": 1, "maxLength": 1000}}},

"Block": {"type": "object", "required": ["id", "checkpoint", "kernel", "contract", "promotion", "reason", "by",
    "since_us", "lifted"],
  "description": "this checkpoint and kernel may not be promoted under this contract until the block is lifted",
  "properties": {"id": {"type": "string"}, "checkpoint": {"$ref": "#/components/schemas/Digest"},
    "kernel": {"type": "string"}, "contract": {"$ref": "#/components/schemas/Digest"}, "promotion": {"type": "string"},
    "reason": {"type": "string"}, "by": {"type": "string"}, "since_us": {"type": "integer"},
    "lifted": {"type": ["object", "null"], "properties": {"by": {"type": "string"}, "reason": {"type": "string"},
      "since_us": {"type": "integer"}}}}},
"Webhook": {"type": "object", "required": ["name", "url", "events", "disabled", "pending", "delivered", "failed",
    "dropped", "last_error"],
  "description": "a configured endpoint and the state of its messages that are still stored",
  "properties": {"name": {"type": "string"}, "url": {"type": "string"},
    "events": {"type": "array", "items": {"type": "string"}, "description": "empty: all events"},
    "disabled": {"type": ["object", "null"], "properties": {"since_us": {"type": "integer"},
      "reason": {"type": "string"}}},
    "pending": {"type": "integer"}, "delivered": {"type": "integer"}, "failed": {"type": "integer"},
    "dropped": {"type": "integer"}, "last_error": {"type": "string"}}},

"CaptureSource": {"description": "a path below a configured root, or an adapter from the daemon's settings",
  "anyOf": [{"type": "string"}, {"type": "object", "required": ["adapter"], "additionalProperties": false,
    "properties": {"adapter": {"type": "string"}}}]},
"StageCaptures": {"type": "object", "required": ["train", "inf"], "additionalProperties": false, "properties": {
  "train": {"$ref": "#/components/schemas/CaptureSource"}, "inf": {"$ref": "#/components/schemas/CaptureSource"},
  "corpus": {"type": "string"}, "floor": {"$ref": "#/components/schemas/StageFloors"}}},
"StageFloors": {"type": "object", "additionalProperties": false,
  "description": "noise floors: two runs of one kernel on the stage's corpus with different batch sizes",
  "properties": {"train": {"$ref": "#/components/schemas/FloorCapture"},
    "inf": {"$ref": "#/components/schemas/FloorCapture"}}},
"FloorCapture": {"description": "a second run, compared with the stage's own capture of that kernel, or two runs compared with each other",
  "anyOf": [{"$ref": "#/components/schemas/CaptureSource"}, {"type": "array", "minItems": 2, "maxItems": 2,
    "items": {"$ref": "#/components/schemas/CaptureSource"}}]},
"PromotionRequest": {"type": "object", "required": ["model", "engine", "contract"], "additionalProperties": false,
  "properties": {"model": {"type": "string"}, "engine": {"type": "string"},
    "contract": {"type": "string", "description": "digest, or a name, which stands for its newest registration"},
    "captures": {"type": "object", "additionalProperties": false, "properties": {
      "numeric": {"$ref": "#/components/schemas/StageCaptures"},
      "slice": {"$ref": "#/components/schemas/StageCaptures"}}},
    "fallback_engine": {"type": "string", "description": "registered engine that serves the contract's fallback kernel with the candidate's checkpoint; needed when several do"},
    "accept_undecidable": {"type": "boolean", "description": "start although an engine lacks an ability that a hard clause needs"},
    "note": {"type": "string"}}},
"Plan": {"type": "object", "description": "stages, clauses, windows, locks and needed samples"},
"Promotion": {"type": "object",
  "required": ["id", "model", "engine", "contract", "requester", "state", "stage", "traffic", "reason", "created_us",
    "updated_us", "stages"],
  "properties": {"id": {"type": "string"}, "model": {"type": "string"}, "engine": {"type": "string"},
    "contract": {"$ref": "#/components/schemas/Digest"}, "contract_name": {"type": "string"},
    "requester": {"type": "string"},
    "state": {"type": "string", "enum": ["queued", "running", "paused", "awaiting_approval", "inconclusive",
      "rolling_back", "finalizing", "succeeded", "rejected", "errored", "aborted", "expired", "superseded"]},
    "stage": {"type": ["string", "null"]}, "attempt": {"type": "integer"},
    "traffic": {"type": "string", "enum": ["never_exposed", "reverted", "live"]}, "reason": {"type": "string"},
    "created_us": {"type": "integer"}, "updated_us": {"type": "integer"},
    "stages": {"type": "array", "items": {"$ref": "#/components/schemas/StageRun"}},
    "canary": {"type": ["object", "null"], "description": "the ramp: `step` of `steps`, `phase`, `share_bp`, exposure, and `waits_for`: why the share does not grow, in sentences"},
    "approval": {"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/Approval"}]},
    "waiver": {"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/Waiver"}]}}},
"StageRun": {"type": "object", "required": ["stage", "attempt", "state"], "properties": {
  "stage": {"type": "string", "enum": ["offline-numeric", "statistical-slice", "shadow-runtime", "canary"]},
  "attempt": {"type": "integer"}, "state": {"type": "string"}, "verdict": {"type": ["string", "null"]},
  "summary": {"type": ["string", "object", "null"]}, "progress": {"type": ["object", "null"]}}},
"Approval": {"type": "object", "required": ["evidence_digest"], "properties": {
  "evidence_digest": {"type": "string", "description": "an approval must name it"},
  "needed": {"type": "integer", "description": "how many different people must approve"},
  "given": {"type": "array", "items": {"$ref": "#/components/schemas/Given"}},
  "step": {"type": "integer"}, "deadline_us": {"type": ["integer", "null"]}}},
"Given": {"type": "object", "required": ["who", "given_us", "reason"], "properties": {"who": {"type": "string"},
  "given_us": {"type": "integer"}, "reason": {"type": "string"}}},
"Waiver": {"type": "object", "required": ["evidence_digest", "needed", "clauses", "deadline_us"], "properties": {
  "evidence_digest": {"type": "string", "description": "digest of the inconclusive stage's report; a waiver must name it"},
  "needed": {"type": "integer", "description": "how many different people must waive each clause"},
  "deadline_us": {"type": ["integer", "null"]},
  "clauses": {"type": "array", "items": {"type": "object", "required": ["clause", "given"], "properties": {
    "clause": {"type": "string"}, "given": {"type": "array", "items": {"$ref": "#/components/schemas/Given"}}}}}}},
"WaiverRequest": {"type": "object", "required": ["clause", "evidence_digest", "reason"], "additionalProperties": false,
  "properties": {"clause": {"type": "string", "description": "family.id"}, "evidence_digest": {"type": "string"},
    "reason": {"type": "string", "minLength": 1, "maxLength": 1000}}},
"ApprovalRequest": {"type": "object", "required": ["evidence_digest", "reason"], "additionalProperties": false,
  "properties": {"evidence_digest": {"type": "string"}, "reason": {"type": "string", "minLength": 1, "maxLength": 1000}}},

"ScheduleRequest": {"type": "object", "required": ["cron", "promotion"], "additionalProperties": false, "properties": {
  "name": {"type": "string"}, "cron": {"type": "string", "description": "minute hour day-of-month month day-of-week"},
  "timezone": {"type": "string", "description": "IANA name; UTC by default"},
  "promotion": {"$ref": "#/components/schemas/PromotionRequest"},
  "misfire": {"type": "string", "enum": ["skip", "run_once"]},
  "grace_s": {"type": "integer", "minimum": 0, "description": "how late run_once may be"},
  "if_running": {"type": "string", "enum": ["skip", "queue"], "description": "what to do while a promotion of the model is in progress"}}},
"Schedule": {"type": "object", "required": ["name", "cron", "timezone", "promotion", "misfire", "grace_s", "if_running",
    "paused", "owner", "revision", "next_us", "fires"], "properties": {"name": {"type": "string"}, "cron": {"type": "string"},
  "timezone": {"type": "string"}, "model": {"type": "string"}, "promotion": {"type": "object"}, "misfire": {"type": "string"},
  "grace_s": {"type": "integer"}, "if_running": {"type": "string"}, "paused": {"type": "boolean"},
  "owner": {"type": "string", "description": "counts as the requester of its promotions and so cannot approve them"},
  "created_us": {"type": "integer"}, "updated_us": {"type": "integer"}, "revision": {"type": "integer"},
  "next_us": {"type": ["integer", "null"]},
  "fires": {"type": "array", "items": {"type": "object", "required": ["fire_us", "outcome", "why", "promotion", "evidence"],
    "properties": {"fire_us": {"type": "integer"}, "outcome": {"type": "string", "enum": ["fired", "skipped"]},
      "why": {"type": "string"}, "promotion": {"type": ["string", "null"]}, "evidence": {"type": "integer"}}}}}},
"ScheduleTimes": {"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": {
  "type": "object", "required": ["fire_us", "local"], "properties": {"fire_us": {"type": "integer"},
    "local": {"type": "string"}}}}}},

"Entry": {"type": "object", "required": ["v", "seq", "time_us", "kind", "actor", "subject", "body"],
  "additionalProperties": false, "description": "the exact bytes are what is hashed: leaf = SHA-256(0x00 || entry)",
  "properties": {"v": {"type": "integer"}, "seq": {"type": "integer"}, "time_us": {"type": "integer"},
    "kind": {"type": "string"}, "actor": {"type": "string"}, "subject": {"type": "object"}, "body": {"type": "object"}}},
"EvidencePage": {"type": "object", "required": ["items", "tree_size", "next"], "properties": {
  "items": {"type": "array", "items": {"$ref": "#/components/schemas/Entry"}},
  "tree_size": {"type": "integer", "description": "size of the log that the page was read from"},
  "next": {"$ref": "#/components/schemas/Cursor"}}},
"Hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
"Proof": {"type": "object", "required": ["seq", "tree_size", "leaf_hash", "root_hash", "path", "checkpoint"],
  "properties": {"seq": {"type": "integer"}, "tree_size": {"type": "integer"},
    "leaf_hash": {"$ref": "#/components/schemas/Hash"}, "root_hash": {"$ref": "#/components/schemas/Hash"},
    "path": {"type": "array", "items": {"$ref": "#/components/schemas/Hash"}}, "checkpoint": {"type": "string"}}},
"Consistency": {"type": "object", "required": ["from", "to", "path", "root", "checkpoint", "continuation"],
  "properties": {"from": {"type": "integer"}, "to": {"type": "integer"},
    "path": {"type": "array", "items": {"$ref": "#/components/schemas/Hash"}},
    "root": {"$ref": "#/components/schemas/Hash", "description": "root of the first `to` entries"},
    "checkpoint": {"type": "string",
      "description": "signed note of `to` entries; where the key of that size is retired, the newest one"},
    "continuation": {"type": "array", "items": {"$ref": "#/components/schemas/Hash"},
      "description": "consistency proof from `to` to the size of the checkpoint; empty when they are equal"}}},

"LogPlace": {"type": ["object", "null"], "required": ["seq", "time_us"], "properties": {
  "seq": {"type": "integer"}, "time_us": {"type": "integer"}}},
"ServedAt": {"type": "object", "required": ["model", "time_us", "tree_size", "applied", "desired", "slices", "served"],
  "properties": {"model": {"type": "string"}, "time_us": {"type": "integer"}, "tree_size": {"type": "integer"},
    "applied": {"$ref": "#/components/schemas/LogPlace"}, "desired": {"$ref": "#/components/schemas/LogPlace"},
    "slices": {"type": "array"}, "mirror_bp": {"type": "integer"},
    "served": {"type": "array", "items": {"type": "object",
      "required": ["role", "version", "share_bp", "since", "origin", "allowed"], "properties": {
        "allowed": {"type": "boolean", "description": "whether a promotion or the installation of the model allowed it"},
        "role": {"type": "string", "enum": ["incumbent", "candidate", "fallback"]}, "version": {"type": "string"},
        "kernel": {"type": "string"}, "share_bp": {"type": "integer"},
        "since": {"$ref": "#/components/schemas/LogPlace"}, "origin": {"type": ["object", "null"]}}}}}},
"AuditPopulation": {"type": "object", "required": ["items", "next", "tree_size", "completeness"], "properties": {
  "items": {"type": "array", "items": {"type": "object", "required": ["seq", "time_us", "how"], "properties": {
    "seq": {"type": "integer"}, "time_us": {"type": "integer"},
    "how": {"type": "string", "enum": ["promotion", "bootstrap", "route"],
      "description": "route: an applied route contains it although no promotion allowed it"}, "model": {"type": "string"},
    "version": {"type": "string"}, "role": {"type": "string"},
    "promotion": {"type": "string"}, "contract": {"type": "string"}, "checkpoint": {"type": "string"}}}},
  "next": {"$ref": "#/components/schemas/Cursor"}, "tree_size": {"type": "integer"},
  "completeness": {"type": "object", "required": ["from_size", "to_size", "from_root", "from_checkpoint",
      "from_continuation", "to_root", "to_checkpoint", "to_continuation", "path"],
    "description": "all entries of the range of time are the leaves from_size to to_size - 1; the path proves that one root extends the other; each root is that of its checkpoint or, where the key of that size is retired, its continuation proves that the newest checkpoint extends it",
    "properties": {"from_size": {"type": "integer"}, "to_size": {"type": "integer"},
      "from_root": {"$ref": "#/components/schemas/Hash"}, "to_root": {"$ref": "#/components/schemas/Hash"},
      "from_checkpoint": {"type": "string"}, "to_checkpoint": {"type": "string"},
      "from_continuation": {"type": "array", "items": {"$ref": "#/components/schemas/Hash"}},
      "to_continuation": {"type": "array", "items": {"$ref": "#/components/schemas/Hash"}},
      "path": {"type": "array", "items": {"$ref": "#/components/schemas/Hash"}}}}}},
"AuditSample": {"type": "object", "required": ["seed", "size", "population", "items"], "properties": {
  "seed": {"type": "string"}, "size": {"type": "integer"}, "population": {"type": "integer"},
  "items": {"type": "array", "items": {"type": "object", "required": ["order", "entry"], "properties": {
    "order": {"$ref": "#/components/schemas/Hash"}, "entry": {"$ref": "#/components/schemas/Entry"}}}}}},

"BackupRequest": {"type": "object", "additionalProperties": false, "properties": {
  "name": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,100}$", "description": "name of the folder; the current time by default"}}},
"Backup": {"type": "object", "required": ["name", "folder", "tree_size", "checkpoint"], "properties": {
  "name": {"type": "string"}, "folder": {"type": "string"}, "tree_size": {"type": "integer"},
  "checkpoint": {"type": "string", "description": "signed head of the log in the backup"}}},

"Session": {"type": "object", "required": ["name", "scopes", "token", "csrf", "expires_us", "server"], "properties": {
  "name": {"type": "string"}, "scopes": {"type": "array", "items": {"$ref": "#/components/schemas/Scope"}},
  "token": {"type": "string", "description": "the token that the session stands for"},
  "csrf": {"type": ["string", "null"], "description": "what X-CSRF-Token must hold; null for a request with a token"},
  "expires_us": {"type": ["integer", "null"], "description": "of the session, or of the token; null: never by itself"},
  "server": {"type": "object", "required": ["version", "started_us"], "properties": {
    "version": {"type": "string"}, "started_us": {"type": "integer"}}}}},
"Settings": {"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": {
  "type": "object", "required": ["name", "value", "default", "text", "changed"], "properties": {
    "name": {"type": "string"}, "value": {"description": "in force; of a secret, the path of its file"},
    "default": {"description": "without a settings file"}, "text": {"type": "string"},
    "changed": {"type": "boolean", "description": "whether it differs from the default"}}}}}},
"TokenRequest": {"type": "object", "required": ["name", "scopes"], "additionalProperties": false, "properties": {
  "name": {"type": "string"}, "scopes": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Scope"}},
  "expires_in_s": {"type": "integer", "minimum": 1}}},
"Token": {"type": "object", "required": ["id", "name", "scopes", "granted_by", "created_us", "expires_us", "revoked_us"],
  "properties": {"id": {"type": "string"}, "name": {"type": "string"},
    "scopes": {"type": "array", "items": {"$ref": "#/components/schemas/Scope"}}, "granted_by": {"type": "string"},
    "created_us": {"type": "integer"}, "expires_us": {"type": ["integer", "null"]},
    "revoked_us": {"type": ["integer", "null"]}}},
"IssuedToken": {"allOf": [{"$ref": "#/components/schemas/Token"}, {"type": "object", "required": ["bearer"],
  "properties": {"bearer": {"type": "string", "pattern": "^dg_[0-9a-f]{64}$"}}}]}
})json";

}  // namespace

std::string_view component_schemas() {
  return kSchemas;
}

}  // namespace driftgate::api
