#include "schema/evidence_entry.hpp"

#include <utility>

namespace driftgate::schema {

namespace {

constexpr std::array<std::string_view, kEvidenceKinds> kKindNames = {
    "contract_registered", "kernel_registered", "engine_registered",  "model_bootstrapped",
    "promotion_requested", "state_changed",     "job_finished",       "verdict_reached",
    "route_desired",       "route_applied",     "escalation_decided", "approval_given",
    "waiver_given",        "hold_set",          "hold_lifted",        "schedule_fired",
    "schedule_skipped",    "token_granted",     "token_revoked",      "evidence_read",
    "evidence_redacted",   "daemon_started",    "clock_stepped",
    "block_set",           "block_lifted"};
static_assert(static_cast<std::size_t>(EvidenceKind::block_lifted) + 1 == kEvidenceKinds);

std::unexpected<Error> malformed(const std::string& what, const std::string& where = {}) {
  return fail(ErrorCode::invalid_document, "not an evidence entry: " + what, where);
}

EntryValue::Object subject_object(const EvidenceSubject& subject) {
  EntryValue::Object object;
  if (subject.model) object.emplace("model", *subject.model);
  if (subject.promotion) object.emplace("promotion", *subject.promotion);
  if (subject.stage) object.emplace("stage", *subject.stage);
  if (subject.attempt) object.emplace("attempt", *subject.attempt);
  if (subject.checkpoint) object.emplace("checkpoint", *subject.checkpoint);
  if (subject.contract) object.emplace("contract", *subject.contract);
  if (subject.prior) object.emplace("prior", *subject.prior);
  return object;
}

Result<EvidenceSubject> read_subject(const EntryValue::Object& object) {
  EvidenceSubject subject;
  for (const auto& [key, value] : object) {
    if (key == "attempt" || key == "prior") {
      if (value.integer() == nullptr) return malformed("it must be an integer", "/subject/" + key);
      (key == "prior" ? subject.prior : subject.attempt) = *value.integer();
      continue;
    }
    if (value.text() == nullptr) return malformed("it must be a string", "/subject/" + key);
    if (key == "model")
      subject.model = *value.text();
    else if (key == "promotion")
      subject.promotion = *value.text();
    else if (key == "stage")
      subject.stage = *value.text();
    else if (key == "checkpoint")
      subject.checkpoint = *value.text();
    else if (key == "contract")
      subject.contract = *value.text();
    else
      return malformed("the subject has no such member", "/subject/" + key);
  }
  return subject;
}

}  // namespace

std::string_view to_string(EvidenceKind kind) {
  return kKindNames.at(static_cast<std::size_t>(kind));
}

Result<EvidenceKind> parse_evidence_kind(std::string_view name) {
  for (std::size_t i = 0; i < kKindNames.size(); ++i) {
    if (kKindNames[i] == name) return static_cast<EvidenceKind>(i);
  }
  return fail(ErrorCode::invalid_argument,
              "'" + std::string(name.substr(0, 80)) + "' is no kind of evidence");
}

Result<std::string> encode_entry(std::int64_t seq, const EntryDraft& draft) {
  if (seq < 0 || draft.time_us < 0 || draft.actor.empty()) {
    return fail(ErrorCode::invalid_argument, "an evidence entry needs a number, a time and an actor");
  }
  return write_canonical(EntryValue::Object{{"actor", draft.actor},
                                            {"body", draft.body},
                                            {"kind", to_string(draft.kind)},
                                            {"seq", seq},
                                            {"subject", subject_object(draft.subject)},
                                            {"time_us", draft.time_us},
                                            {"v", 1}});
}

Result<Entry> decode_entry(std::string_view bytes) {
  auto parsed = parse_canonical(bytes);
  if (!parsed) return std::unexpected(std::move(parsed.error()));
  constexpr std::size_t kMembers = 7;
  const EntryValue::Object* object = parsed->object();
  if (object == nullptr || object->size() != kMembers) {
    return malformed("it must be an object with actor, body, kind, seq, subject, time_us and v");
  }
  const auto member = [&](std::string_view key) -> const EntryValue& {
    static const EntryValue kAbsent;
    const EntryValue* found = parsed->find(key);
    return found == nullptr ? kAbsent : *found;
  };
  const std::int64_t* version = member("v").integer();
  if (version == nullptr || *version != 1) return malformed("its version must be 1", "/v");
  const std::int64_t* seq = member("seq").integer();
  if (seq == nullptr || *seq < 0) return malformed("seq must be an integer from 0", "/seq");
  const std::int64_t* time = member("time_us").integer();
  if (time == nullptr || *time < 0) return malformed("time_us must be an integer from 0", "/time_us");
  const std::string* actor = member("actor").text();
  if (actor == nullptr || actor->empty())
    return malformed("actor must be a string that is not empty", "/actor");
  const std::string* kind_name = member("kind").text();
  if (kind_name == nullptr) return malformed("kind must be a string", "/kind");
  const auto kind = parse_evidence_kind(*kind_name);
  if (!kind) return malformed(kind.error().message, "/kind");
  const EntryValue::Object* subject = member("subject").object();
  const EntryValue::Object* body = member("body").object();
  if (subject == nullptr || body == nullptr) return malformed("subject and body must be objects");
  auto read = read_subject(*subject);
  if (!read) return std::unexpected(std::move(read.error()));
  return Entry{*seq, EntryDraft{*time, *kind, *actor, std::move(*read), *body}};
}

}  // namespace driftgate::schema
