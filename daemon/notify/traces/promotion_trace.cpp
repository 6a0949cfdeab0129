#include "daemon/notify/traces/promotion_trace.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/base/entry_members.hpp"
#include "daemon/store/states.hpp"
#include "schema/sha256.hpp"
#include "schema/utf8.hpp"

namespace driftgate::notify {
namespace {

using schema::Entry;
using schema::EvidenceKind;
using Body = schema::EntryValue::Object;

constexpr std::size_t kTraceDigits = 32;
constexpr std::size_t kSpanDigits = 16;
constexpr std::size_t kMaxText = 2'000;  // of an attribute, in bytes

std::string digits(const std::string& text, std::size_t count) {
  return schema::to_hex(schema::sha256(text)).substr(0, count);
}

bool is_end(std::string_view state) {
  const auto parsed = store::parse_state<store::PromotionState>(state);
  return parsed && store::is_terminal(*parsed);
}

void put_text(Attributes& attributes, const char* name, const std::string& value) {
  if (!value.empty()) attributes.emplace_back(name, schema::utf8_text(value, kMaxText));
}

void put_measured(Attributes& attributes, const char* name, const Body& body, std::string_view member) {
  const auto found = body.find(member);
  if (found == body.end()) return;
  if (const auto value = found->second.number()) attributes.emplace_back(name, *value);
}

/// Reads the entries one after the other.
class Reading {
 public:
  explicit Reading(std::string_view promotion) : promotion_(promotion), trace_id_(trace_id(promotion)) {
    root_.id = span_id(promotion, "", 0);
  }

  void take(const Entry& entry) {
    const auto& draft = entry.draft;
    if (draft.subject.promotion != promotion_) return;
    if (draft.kind == EvidenceKind::promotion_requested) begin(entry);
    if (draft.kind == EvidenceKind::verdict_reached) add_verdict(entry);
    if (draft.kind == EvidenceKind::state_changed) change_state(entry);
  }

  PromotionTrace result() { return std::move(trace_); }

 private:
  void begin(const Entry& entry) {
    const auto& draft = entry.draft;
    root_.start_us = draft.time_us;
    root_.name = "promotion";
    auto& about = root_.attributes;
    put_text(about, "driftgate.promotion.id", promotion_);
    put_text(about, "gen_ai.request.model", draft.subject.model.value_or(""));
    put_text(about, "driftgate.engine", base::text_at(draft.body, "engine"));
    put_text(about, "driftgate.kernel", base::text_at(draft.body, "kernel"));
    put_text(about, "driftgate.contract.digest", draft.subject.contract.value_or(""));
    put_text(about, "driftgate.checkpoint.digest", draft.subject.checkpoint.value_or(""));
    put_text(about, "driftgate.requester", draft.actor);
  }

  void change_state(const Entry& entry) {
    const auto& draft = entry.draft;
    if (trace_.ended) return;  // a rollback after success is told by its guard, and by metrics
    const auto to = base::text_at(draft.body, "to");
    const auto stage = base::text_at(draft.body, "stage");
    const auto attempt = base::integer_at(draft.body, "attempt", 1);
    const bool ends = is_end(to);
    if (!open_.name.empty() && (ends || stage != stage_ || attempt != attempt_)) {
      if (to == "errored") open_.error = base::text_at(draft.body, "reason");
      end(open_, entry);
      open_ = {};
    }
    if (ends) return end_promotion(entry, to);
    if (stage.empty() || !open_.name.empty()) return;
    stage_ = stage;
    attempt_ = attempt;
    open_ = {.id = span_id(promotion_, stage, attempt),
             .parent = root_.id,
             .name = "stage " + stage,
             .start_us = draft.time_us,
             .attributes = {{"driftgate.stage", stage}, {"driftgate.attempt", attempt}}};
  }

  void end_promotion(const Entry& entry, const std::string& to) {
    trace_.ended = true;
    if (root_.name.empty()) return;  // its request is not among these entries
    put_text(root_.attributes, "driftgate.outcome", to);
    put_text(root_.attributes, "driftgate.traffic", base::text_at(entry.draft.body, "traffic"));
    put_text(root_.attributes, "driftgate.reason", base::text_at(entry.draft.body, "reason"));
    if (to == "errored") root_.error = base::text_at(entry.draft.body, "reason");
    end(root_, entry);
  }

  void end(Span span, const Entry& entry) {
    span.seq = entry.seq;
    span.trace = trace_id_;
    span.end_us = std::max(span.start_us, entry.draft.time_us);
    trace_.spans.push_back(std::move(span));
  }

  void add_verdict(const Entry& entry) {
    const auto& draft = entry.draft;
    const auto& body = draft.body;
    const auto verdict = base::text_at(body, "verdict");
    const auto stage = draft.subject.stage.value_or("");
    const auto attempt = draft.subject.attempt.value_or(1);
    const auto clause = base::text_at(body, "clause");
    if (clause.empty()) {
      const bool same = !open_.name.empty() && stage == stage_ && attempt == attempt_;
      if (same && body.contains("ended") && body.find("ended")->second.boolean() != nullptr &&
          *body.find("ended")->second.boolean())
        put_text(open_.attributes, "driftgate.verdict", verdict);
      return;
    }
    SpanEvent event{.seq = entry.seq,
                    .trace = trace_id_,
                    .span = span_id(promotion_, stage, attempt),
                    .name = std::string(kEvaluationEvent),
                    .time_us = draft.time_us,
                    .attributes = {}};
    auto& about = event.attributes;
    put_text(about, "gen_ai.evaluation.name", clause);
    put_measured(about, "gen_ai.evaluation.score.value", body, "estimate");
    put_text(about, "gen_ai.evaluation.score.label", verdict);
    put_text(about, "gen_ai.evaluation.explanation", base::text_at(body, "message"));
    if (verdict == "error") about.emplace_back("error.type", std::string("not_measured"));
    put_text(about, "gen_ai.request.model", draft.subject.model.value_or(""));
    put_text(about, "driftgate.promotion.id", promotion_);
    put_text(about, "driftgate.stage", stage);
    put_text(about, "driftgate.slice", base::text_at(body, "slice"));
    put_text(about, "driftgate.severity", base::text_at(body, "severity"));
    put_text(about, "driftgate.limit.kind", base::text_at(body, "limit_kind"));
    put_measured(about, "driftgate.limit", body, "threshold");
    put_measured(about, "driftgate.e_value", body, "e_value");
    put_measured(about, "driftgate.lower", body, "lower");
    put_measured(about, "driftgate.upper", body, "upper");
    about.emplace_back("driftgate.samples", base::integer_at(body, "n"));
    about.emplace_back("driftgate.evidence.seq", entry.seq);
    trace_.events.push_back(std::move(event));
  }

  const std::string promotion_, trace_id_;
  Span root_, open_;
  std::string stage_;
  std::int64_t attempt_ = 0;
  PromotionTrace trace_;
};

}  // namespace

std::string trace_id(std::string_view promotion) {
  return digits(fmt::format("driftgate trace {}", promotion), kTraceDigits);
}

std::string span_id(std::string_view promotion, std::string_view stage, std::int64_t attempt) {
  return digits(fmt::format("driftgate span {}/{}/{}", promotion, stage, attempt), kSpanDigits);
}

PromotionTrace trace_of(std::string_view promotion, const std::vector<Entry>& entries) {
  Reading reading(promotion);
  for (const auto& entry : entries) reading.take(entry);
  return reading.result();
}

}  // namespace driftgate::notify
