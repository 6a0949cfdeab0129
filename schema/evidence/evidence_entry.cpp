#include "schema/evidence/evidence_entry.hpp"

#include <utility>

namespace driftgate::schema {

namespace {

constexpr std::array<std::string_view, kEvidenceKinds> kKindNames = {
    "contract_registered", "kernel_registered", "engine_registered",  "model_bootstrapped",
    "promotion_requested", "state_changed",     "job_finished",       "verdict_reached",
    "route_desired",       "route_applied",     "escalation_decided", "approval_given",
    "waiver_given",        "hold_set",          "hold_lifted",        "schedule_fired",
    "schedule_skipped",    "token_granted",     "token_revoked",      "evidence_read",
    "evidence_redacted",   "daemon_started",    "clock_stepped",      "block_set",
    "block_lifted",        "key_rotated",       "epoch_changed",      "schedule_set",
    "schedule_deleted",    "router_replaced",   "breaker_changed",    "guard_armed",
    "guard_alarmed",       "guard_decided",     "guard_ended",        "recipe_set",
    "recipe_deleted"};
static_assert(static_cast<std::size_t>(EvidenceKind::recipe_deleted) + 1 == kEvidenceKinds);

std::unexpected<Error> malformed(const std::string& what, const std::string& where = {}) {
  return fail(ErrorCode::invalid_document, "not an evidence entry: " + what, where);
}

/// Writes an object member by member; the keys must come in order.
class ObjectText {
 public:
  explicit ObjectText(std::string& out, std::size_t depth) : out_(out), depth_(depth) { out_ += '{'; }

  void member(std::string_view key, const CanonicalPart& part) {
    if (!done_) return;
    begin(key);
    done_ = append_canonical(out_, part, depth_ + 1);
    if (!done_) done_.error().where = "/" + std::string(key) + done_.error().where;
  }
  template <typename T>
  void member_if(std::string_view key, const std::optional<T>& value) {
    if (value) member(key, CanonicalPart(*value));
  }
  void begin(std::string_view key) {
    if (!first_) out_ += ',';
    first_ = false;
    out_ += '"';
    out_ += key;
    out_ += "\":";
  }
  Result<void> end() {
    out_ += '}';
    return std::move(done_);
  }

 private:
  std::string& out_;
  std::size_t depth_;
  bool first_ = true;
  Result<void> done_;
};

Result<void> append_subject(std::string& out, const EvidenceSubject& subject,
                            const std::optional<std::int64_t>& prior) {
  ObjectText object(out, 1);
  object.member_if("attempt", subject.attempt);
  object.member_if("checkpoint", subject.checkpoint);
  object.member_if("contract", subject.contract);
  object.member_if("model", subject.model);
  object.member_if("prior", prior);
  object.member_if("promotion", subject.promotion);
  object.member_if("stage", subject.stage);
  auto done = object.end();
  if (!done) done.error().where = "/subject" + done.error().where;
  return done;
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
  return encode_entry(seq, draft, draft.subject.prior);
}

Result<std::string> encode_entry(std::int64_t seq, const EntryDraft& draft,
                                 const std::optional<std::int64_t>& prior) {
  if (seq < 0 || draft.time_us < 0 || draft.actor.empty()) {
    return fail(ErrorCode::invalid_argument, "an evidence entry needs a number, a time and an actor");
  }
  constexpr std::size_t kUsualBytes = 1'024;
  std::string out;
  out.reserve(kUsualBytes);
  ObjectText entry(out, 0);
  entry.member("actor", draft.actor);
  entry.member("body", &draft.body);
  entry.member("kind", to_string(draft.kind));
  entry.member("seq", seq);
  entry.begin("subject");
  auto subject = append_subject(out, draft.subject, prior);
  entry.member("time_us", draft.time_us);
  entry.member("v", std::int64_t{1});
  auto done = entry.end();
  if (done) done = std::move(subject);
  if (done && out.size() > kMaxEntryBytes) {
    done = fail(
        ErrorCode::limit_exceeded,
        "an evidence entry cannot hold more than 65,535 bytes: store the rest as a blob and name its digest");
  }
  if (!done) return std::unexpected(std::move(done.error()));
  return out;
}

Result<Entry> decode_entry(std::string_view bytes) {
  auto parsed = TRY(parse_canonical(bytes));
  constexpr std::size_t kMembers = 7;
  const EntryValue::Object* object = parsed.object();
  if (object == nullptr || object->size() != kMembers) {
    return malformed("it must be an object with actor, body, kind, seq, subject, time_us and v");
  }
  const auto member = [&](std::string_view key) -> const EntryValue& {
    static const EntryValue kAbsent;
    const EntryValue* found = parsed.find(key);
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
  auto read = TRY(read_subject(*subject));
  return Entry{*seq, EntryDraft{*time, *kind, *actor, std::move(read), *body}};
}

}  // namespace driftgate::schema
