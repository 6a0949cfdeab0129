#include "schema/evidence/entry_kinds.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace driftgate::schema {

namespace {

using Json = nlohmann::ordered_json;
using T = EntryFieldType;
using K = EvidenceKind;

constexpr bool kOptional = false;

constexpr EntryField kRegistered[] = {{"name", T::text, true, "as registered"},
                                      {"digest", T::text, true, "of its canonical JSON"}};
constexpr EntryField kEngine[] = {
    {"name", T::text, true, "as registered"},
    {"url", T::text, true, "base URL"},
    {"kernel", T::text, true, "name of its kernel"},
    {"abilities", T::structure, true, "what the probe found"},
    {"checkpoint_uri", T::text, kOptional, "where its weights are, or empty"},
    {"key_file", T::text, kOptional, "file that its key is in, or empty"},
    {"key_header", T::text, kOptional, "header of its key; empty: Authorization"},
    {"ca_file", T::text, kOptional, "file of its own CAs, or empty"},
    {"ca_digest", T::text, kOptional, "of the CA file, or empty"}};
constexpr EntryField kBootstrapped[] = {{"version", T::text, true, "what serves from now on"},
                                        {"engine", T::text, true, "its engine"},
                                        {"kernel", T::text, true, "its kernel"},
                                        {"reason", T::text, true, "why without a promotion"},
                                        {"claim", T::text, true, "of conformity: none"},
                                        {"url", T::text, kOptional, "base URL of the version"}};
constexpr EntryField kRequested[] = {
    {"engine", T::text, true, "of the candidate"},
    {"kernel", T::text, true, "of the candidate"},
    {"candidate", T::text, true, "version"},
    {"seed", T::any, true, "of every random choice"},
    {"request", T::structure, true, "the whole request, with what came from the model's recipe"},
    {"url", T::text, kOptional, "base URL of the candidate"}};
constexpr EntryField kState[] = {{"from", T::text, true, "state before"},
                                 {"to", T::text, true, "state after"},
                                 {"stage", T::text, true, "stage it is in, or empty"},
                                 {"reason", T::text, true, "why"},
                                 {"attempt", T::integer, kOptional, "of the stage"},
                                 {"traffic", T::text, kOptional, "never_exposed, reverted or live"},
                                 {"baseline", T::text, kOptional, "version it is held against, or empty"},
                                 {"resume", T::text, kOptional, "state that it goes on to, or empty"},
                                 {"deadline_us", T::integer, kOptional, "of a state that waits, or -1"},
                                 {"outcome_digest", T::text, kOptional, "of its outcome, or empty"}};
constexpr EntryField kJob[] = {{"job", T::text, true, "id"},
                               {"name", T::text, true, "within its stage"},
                               {"kind", T::text, true, "capture, drift or rescore"},
                               {"ok", T::boolean, true, "whether it gave a result"},
                               {"digests", T::list, true, "{name, digest} of inputs and outputs"},
                               {"spec_digest", T::text, true, "of its job specification"},
                               {"wall_ms", T::integer, true, "how long it took"},
                               {"error", T::structure, kOptional, "{code, message}"},
                               {"summary", T::any, kOptional, "what it counted"},
                               {"runner", T::text, kOptional, "local or slurm"},
                               {"slurm_jobs", T::list, kOptional, "Slurm's numbers of it, oldest first"},
                               {"nodes", T::text, kOptional, "that Slurm gave it"}};
constexpr EntryField kVerdict[] = {{"verdict", T::text, true, "pass, violated, inconclusive or error"},
                                   {"clause", T::text, kOptional, "family.id; none for the stage as a whole"},
                                   {"scope", T::text, kOptional, "stage, for the stage as a whole"},
                                   {"slice", T::text, kOptional, "where it was decided"},
                                   {"severity", T::text, kOptional, "hard or soft"},
                                   {"rule", T::text, kOptional, "how the verdict follows from the numbers"},
                                   {"rules", T::integer, kOptional, "version of the rules; absent: 1"},
                                   {"estimate", T::any, kOptional, "measured"},
                                   {"lower", T::any, kOptional, "measured"},
                                   {"upper", T::any, kOptional, "measured"},
                                   {"e_value", T::any, kOptional, "measured"},
                                   {"p_value", T::any, kOptional, "measured"},
                                   {"threshold", T::any, kOptional, "measured"},
                                   {"inputs_digest", T::text, kOptional, "of what it followed from"},
                                   {"code_version", T::text, kOptional, "of the program that decided"}};
constexpr EntryField kRoute[] = {{"route", T::structure, true, "as the data plane is told"},
                                 {"candidate_bp", T::integer, true, "share of the candidate, basis points"},
                                 {"reason", T::text, true, "why"}};
constexpr EntryField kEscalation[] = {{"action", T::text, true, "of the escalation ladder"},
                                      {"reason", T::text, true, "why"},
                                      {"figures", T::structure, true, "that it followed from"},
                                      {"clause", T::text, kOptional, "that ordered it"},
                                      {"slice", T::text, kOptional, "where"},
                                      {"rule", T::any, kOptional, "of the policy"}};
constexpr EntryField kApproval[] = {{"evidence_digest", T::text, true, "what was read"},
                                    {"reason", T::text, true, "why"},
                                    {"step", T::integer, true, "of the ramp"},
                                    {"decision", T::text, kOptional, "approve, reject or refused_self"},
                                    {"approval", T::text, kOptional, "id"},
                                    {"given", T::integer, kOptional, "approvals of the step so far"},
                                    {"needed", T::integer, kOptional, "approvals that it takes"},
                                    {"people_rule", T::integer, kOptional,
                                     "version of the rule that tells people apart; absent: exact names"}};
constexpr EntryField kWaiver[] = {{"clause", T::text, true, "that is waived"},
                                  {"evidence_digest", T::text, true, "what was read"},
                                  {"reason", T::text, true, "why"},
                                  {"decision", T::text, kOptional, "waive or refused_self"},
                                  {"waiver", T::text, kOptional, "id"},
                                  {"given", T::integer, kOptional, "waivers of the clause so far"},
                                  {"needed", T::integer, kOptional, "waivers that it takes"},
                                  {"people_rule", T::integer, kOptional,
                                   "version of the rule that tells people apart; absent: exact names"}};
constexpr EntryField kReason[] = {{"reason", T::text, true, "why"}};
constexpr EntryField kSchedule[] = {{"schedule", T::text, true, "name"},
                                    {"reason", T::text, kOptional, "why it was skipped"}};
constexpr EntryField kScheduleSet[] = {
    {"schedule", T::text, true, "name"},
    {"change", T::text, true, "created, replaced, paused or resumed"},
    {"revision", T::integer, true, "after it"},
    {"cron", T::text, true, "when it fires"},
    {"timezone", T::text, true, "of the expression"},
    {"request", T::structure, true, "promotion that it asks for"},
    {"misfire", T::text, true, "skip or run_once"},
    {"grace_s", T::integer, true, "how late run_once may be"},
    {"if_running", T::text, true, "skip or queue"},
    {"paused", T::boolean, true, "whether it is paused"},
    {"owner", T::text, true, "who counts as requester of what it asks for"}};
constexpr EntryField kScheduleDeleted[] = {{"schedule", T::text, true, "name"},
                                           {"revision", T::integer, true, "the last"}};
constexpr EntryField kToken[] = {
    {"token", T::text, true, "id"},
    {"name", T::text, true, "whose"},
    {"scopes", T::list, true, "what it allows"},
    {"expires_us", T::integer, kOptional, "when it ends"},
    {"hash_digest", T::text, kOptional, "SHA-256 of the hash that is stored of it"},
    {"recovery", T::text, kOptional, "why, when it was issued from the data folder while no daemon ran"}};
constexpr EntryField kRead[] = {
    {"what", T::text, true, "what was asked"},
    {"uncounted", T::integer, kOptional, "reads since the previous entry that have no entry of their own"}};
constexpr EntryField kStarted[] = {{"instance", T::text, true, "of the daemon"},
                                   {"code_version", T::text, true, "of the program"},
                                   {"models", T::integer, true, "that it took over"}};
constexpr EntryField kClock[] = {{"step_us", T::integer, true, "how far the wall clock jumped"}};
constexpr EntryField kBlockSet[] = {
    {"block", T::text, true, "id"},         {"kernel", T::text, true, "that is blocked"},
    {"reason", T::text, true, "why"},       {"clause", T::text, kOptional, "that ordered it"},
    {"slice", T::text, kOptional, "where"}, {"rule", T::any, kOptional, "of the policy"}};
constexpr EntryField kRotated[] = {
    {"use", T::text, true, "head or attestation"},
    {"name", T::text, true, "of the keys"},
    {"old_key", T::text, true, "verifier key"},
    {"new_key", T::text, true, "verifier key"},
    {"from_size", T::integer, true, "of the log when the new one came into force"},
    {"reason", T::text, true, "why"}};
constexpr EntryField kEpoch[] = {{"epoch", T::integer, true, "that begins"},
                                 {"origin", T::text, true, "of its heads"},
                                 {"kept_size", T::integer, true, "entries that were restored"},
                                 {"kept_head", T::text, true, "signed head of what was restored"},
                                 {"published_head", T::text, true, "newest head of the epoch before"},
                                 {"loss", T::text, true, "how they differ"},
                                 {"reason", T::text, true, "why the loss was accepted"}};
constexpr EntryField kRouterReplaced[] = {
    {"why", T::text, true, "killed, hung, exited or handed_over"},
    {"reason", T::text, true, "what was seen"},
    {"router", T::text, true, "id of the process that ended, as telemetry names it"},
    {"pid", T::integer, true, "of that process"},
    {"replacement", T::text, true, "id of the process that has served since then"},
    {"replacement_pid", T::integer, true, "of it"},
    {"down_ms", T::integer, true, "time without a router that serves"},
    {"connections", T::integer, kOptional, "open from clients when it ended"},
    {"broken", T::list, kOptional, "{model, arm, requests} started and not answered completely"},
    {"unread", T::integer, kOptional, "connections with a request that a hung router had not begun to read"},
    {"lost", T::list, kOptional, "{model, windows, requests} of telemetry that it had not handed over"}};
constexpr EntryField kBreaker[] = {
    {"engine", T::text, true, "base URL"},
    {"arm", T::text, true,
     "incumbent, candidate or fallback in the model's route; none: in no route any more"},
    {"state", T::text, true, "open or closed, from now on"},
    {"reason", T::text, true, "of the newest failure before it opened"},
    {"router", T::text, true, "id of the router process, as telemetry names it"},
    {"event", T::integer, true, "number within that process"},
    {"at_us", T::integer, true, "when, by the router's wall clock"},
    {"failures", T::integer, kOptional, "in a row, when it opened"},
    {"first_failure_us", T::integer, kOptional, "when the first of them was seen, by that clock"},
    {"open_ms", T::integer, kOptional, "for how long it was open, when it closed"}};
constexpr EntryField kGuardArmed[] = {
    {"guard", T::text, true, "id"},
    {"what", T::text, true, "traffic, probes, identity or rescoring: what is watched from now on"},
    {"promotion", T::text, true, "that armed the guard"},
    {"version", T::text, true, "that is watched"},
    {"reason", T::text, true, "what it is held against"},
    {"figures", T::structure, true, "that it is held against"}};
constexpr EntryField kGuardAlarmed[] = {{"guard", T::text, true, "id"},
                                        {"what", T::text, true, "traffic, probes, identity or rescoring"},
                                        {"state", T::text, true, "raised or cleared"},
                                        {"reason", T::text, true, "what was seen"},
                                        {"figures", T::structure, true, "that it follows from"},
                                        {"clause", T::text, kOptional, "whose limit was exceeded"},
                                        {"slice", T::text, kOptional, "where"},
                                        {"ordered", T::text, kOptional, "action that the contract orders"},
                                        {"rule", T::any, kOptional, "of the policy"},
                                        {"notify", T::boolean, kOptional, "whether webhooks are told"}};
constexpr EntryField kGuardDecided[] = {
    {"guard", T::text, true, "id"},
    {"action", T::text, true, "rollback, fallback, route_slice, hold or give_back: what was done"},
    {"ordered", T::text, true, "what was ordered, or empty"},
    {"reason", T::text, true, "why"},
    {"tried", T::list, true, "{action, possible, reason}, in the order in which they were looked at"}};
constexpr EntryField kRecipeSet[] = {{"model", T::text, true, "whose promotions it is for"},
                                     {"change", T::text, true, "created or replaced"},
                                     {"revision", T::integer, true, "after it"},
                                     {"digest", T::text, true, "of its canonical JSON"},
                                     {"recipe", T::structure, true, "parts of a promotion request"}};
constexpr EntryField kRecipeDeleted[] = {{"model", T::text, true, "whose promotions it was for"},
                                         {"revision", T::integer, true, "after it"},
                                         {"digest", T::text, true, "of the recipe that was deleted"}};
constexpr EntryField kGuardEnded[] = {{"guard", T::text, true, "id"}, {"reason", T::text, true, "why"}};

const EntryKindSpec kSpecs[] = {
    {K::contract_registered, "a contract was registered", kRegistered},
    {K::kernel_registered, "a kernel was registered", kRegistered},
    {K::engine_registered, "an engine was registered and probed", kEngine},
    {K::model_bootstrapped, "a model's first version was installed without a promotion", kBootstrapped},
    {K::promotion_requested, "a promotion was asked for", kRequested},
    {K::state_changed, "a promotion changed its state", kState},
    {K::job_finished, "a job ended", kJob},
    {K::verdict_reached, "a clause, or a stage, was decided", kVerdict},
    {K::route_desired, "a route was decided, before it is applied", kRoute},
    {K::route_applied, "a route was read back from the data plane", kRoute},
    {K::escalation_decided, "the policy ordered an action", kEscalation},
    {K::approval_given, "a person approved a step, or was refused", kApproval},
    {K::waiver_given, "a person waived an inconclusive clause, or was refused", kWaiver},
    {K::hold_set, "automation was stopped for a model", kReason},
    {K::hold_lifted, "automation was allowed to run again", kReason},
    {K::schedule_fired, "a schedule started a promotion", kSchedule},
    {K::schedule_skipped, "a schedule was due and started no promotion", kSchedule},
    {K::token_granted, "a token was issued", kToken},
    {K::token_revoked, "a token was revoked", kToken},
    {K::evidence_read, "somebody read the log", kRead},
    {K::evidence_redacted, "personal data was made unreadable", kReason},
    {K::daemon_started, "a daemon started and took over the log", kStarted},
    {K::clock_stepped, "the wall clock jumped", kClock},
    {K::block_set, "a checkpoint on a kernel was blocked under a contract", kBlockSet},
    {K::block_lifted, "a block was lifted", kBlockSet},
    {K::key_rotated, "a signing key was replaced", kRotated},
    {K::epoch_changed, "a restore brought back a log older than the published head", kEpoch},
    {K::schedule_set, "a schedule was made or changed", kScheduleSet},
    {K::schedule_deleted, "a schedule was deleted", kScheduleDeleted},
    {K::router_replaced, "a router ended or hung and another took its place", kRouterReplaced},
    {K::breaker_changed, "an engine stopped answering, or answers again", kBreaker},
    {K::guard_armed, "a guard began to watch a promoted version, or one more thing about it", kGuardArmed},
    {K::guard_alarmed, "a guard raised an alarm, or one cleared", kGuardAlarmed},
    {K::guard_decided, "what was done about an alarm", kGuardDecided},
    {K::guard_ended, "a guard ended", kGuardEnded},
    {K::recipe_set, "a model's recipe was made or changed", kRecipeSet},
    {K::recipe_deleted, "a model's recipe was deleted", kRecipeDeleted},
};
static_assert(std::size(kSpecs) == kEvidenceKinds);

bool is_of(const EntryValue& value, T type) {
  switch (type) {
    case T::text:
      return value.text() != nullptr;
    case T::integer:
      return value.integer() != nullptr;
    case T::boolean:
      return value.boolean() != nullptr;
    case T::measured:
      return value.number().has_value();
    case T::structure:
      return value.object() != nullptr || value.array() != nullptr;
    case T::list:
      return value.array() != nullptr;
    case T::any:
      break;
  }
  return true;
}

Json measured_schema() {
  return {{"type", "object"},
          {"required", {"dec", "hex"}},
          {"additionalProperties", false},
          {"properties",
           {{"dec", {{"type", "string"}}}, {"hex", {{"type", "string"}, {"pattern", "^[0-9a-f]{16}$"}}}}}};
}

Json type_schema(T type) {
  switch (type) {
    case T::text:
      return {{"type", "string"}};
    case T::integer:
      return {{"type", "integer"}};
    case T::boolean:
      return {{"type", "boolean"}};
    case T::measured:
      return measured_schema();
    case T::structure:
      return {{"type", {"object", "array"}}};
    case T::list:
      return {{"type", "array"}};
    case T::any:
      break;
  }
  return Json::object();
}

Json body_schema(const EntryKindSpec& spec) {
  Json body{{"type", "object"}, {"required", Json::array()}, {"properties", Json::object()}};
  for (const EntryField& field : spec.fields) {
    if (field.required) body["required"].push_back(field.name);
    Json member = type_schema(field.type);
    member["description"] = field.meaning;
    body["properties"][std::string(field.name)] = std::move(member);
  }
  return body;
}

Json subject_schema() {
  const Json digest{{"type", "string"}};
  const Json count{{"type", "integer"}, {"minimum", 0}};
  return {{"type", "object"},
          {"additionalProperties", false},
          {"properties",
           {{"model", {{"type", "string"}}},
            {"promotion", {{"type", "string"}}},
            {"stage", {{"type", "string"}}},
            {"attempt", count},
            {"checkpoint", digest},
            {"contract", digest},
            {"prior", count}}}};
}

}  // namespace

const EntryKindSpec& entry_kind_spec(EvidenceKind kind) {
  const auto* found = std::ranges::find(kSpecs, kind, &EntryKindSpec::kind);
  if (found == std::end(kSpecs)) throw std::logic_error("a kind of evidence without a description");
  return *found;
}

Result<void> check_entry_kind(const EntryDraft& entry) {
  const std::string kind(to_string(entry.kind));
  for (const EntryField& field : entry_kind_spec(entry.kind).fields) {
    const std::string where = "/body/" + std::string(field.name);
    const auto found = entry.body.find(field.name);
    if (found == entry.body.end()) {
      if (field.required) return fail(ErrorCode::invalid_document, kind + " lacks a member", where);
      continue;
    }
    if (!is_of(found->second, field.type)) {
      return fail(ErrorCode::invalid_document, kind + " has a member of another type", where);
    }
  }
  return {};
}

std::string entry_json_schema(EvidenceKind kind) {
  const EntryKindSpec& spec = entry_kind_spec(kind);
  const std::string name(to_string(kind));
  const Json from_zero{{"type", "integer"}, {"minimum", 0}, {"maximum", kMaxEntryInteger}};
  Json document{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                {"$id", "/schemas/entries/" + name + ".json"},
                {"title", name},
                {"description", spec.meaning},
                {"type", "object"},
                {"required", {"actor", "body", "kind", "seq", "subject", "time_us", "v"}},
                {"additionalProperties", false},
                {"properties",
                 {{"v", {{"const", 1}}},
                  {"seq", from_zero},
                  {"time_us", from_zero},
                  {"kind", {{"const", name}}},
                  {"actor", {{"type", "string"}, {"minLength", 1}}},
                  {"subject", subject_schema()},
                  {"body", body_schema(spec)}}}};
  return document.dump(2) + "\n";
}

}  // namespace driftgate::schema
