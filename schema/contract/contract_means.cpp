#include "schema/contract/contract_means.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "schema/contract/contract_parse.hpp"
#include "schema/json.hpp"

namespace driftgate::schema {
namespace {

bool of_captures(Metric metric) {
  return info(metric).group == MetricGroup::row || info(metric).group == MetricGroup::realised;
}

bool is_quantile(const MetricSubject& subject) {
  return subject.aggregate && quantile_of(*subject.aggregate);
}

bool is_mean(const MetricSubject& subject) {
  // The mean ratio is one figure of all tokens: only over tokens is it 1 when the support assumption holds.
  if (subject.metric == Metric::ratio_mean) return true;
  return subject.aggregate == Aggregate::mean || subject.aggregate == Aggregate::sequence_mean;
}

std::string unbounded_text(const MetricSubject& subject) {
  const std::string approximate = "confidence: {means: approximate}";
  const std::string_view name = to_string(subject.metric);
  std::string text = fmt::format(
      "values of {} have no largest one, so no exact method can prove a limit of "
      "their mean",
      name);
  MetricSubject by_sequence = subject;
  by_sequence.aggregate = Aggregate::sequence_mean;
  if (!why_no_clip(by_sequence).empty()) return fmt::format("{}; write {}", text, approximate);
  const char* first =
      subject.aggregate == Aggregate::mean ? "aggregate: sequence_mean with clip: X" : "clip: X";
  return fmt::format("{}; write {} (each sequence's mean then counts as at most X), or {}", text, first,
                     approximate);
}

/// `other` is decided wherever `clause` is, and blocks where that does.
bool covers(const Clause& other, const Clause& clause) {
  if (other.severity == Severity::soft && clause.severity == Severity::hard) return false;
  if ((clause.stages & ~other.stages) != 0) return false;
  if (clause.slices.empty() != other.slices.empty()) return false;
  return std::ranges::all_of(clause.slices, [&](SliceRole role) {
    return std::ranges::find(other.slices, role) != other.slices.end();
  });
}

}  // namespace

bool has_finite_range(Metric metric) {
  if (metric == Metric::entropy_train || metric == Metric::entropy_inf) return true;
  const MetricInfo& entry = info(metric);
  return entry.bounded && std::isfinite(entry.low) && std::isfinite(entry.high);
}

bool limits_a_mean(const Clause& clause) {
  const auto* subject = std::get_if<MetricSubject>(&clause.subject);
  return subject != nullptr && of_captures(subject->metric) && is_mean(*subject);
}

bool weighs_tokens(const MetricSubject& subject) {
  if (subject.band && *subject.band >= Band::sequences_0_1pct) return false;
  return subject.aggregate == Aggregate::mean || subject.metric == Metric::ratio_mean;
}

std::string why_no_clip(const MetricSubject& subject) {
  const bool once = (info(subject.metric).aggregates & aggregate_bit(Aggregate::sequence_mean)) != 0;
  if (!of_captures(subject.metric) || subject.aggregate != Aggregate::sequence_mean || !once) {
    return "clip caps the mean of each sequence, so it stands beside aggregate: sequence_mean of what "
           "captures "
           "measure";
  }
  if (std::isfinite(info(subject.metric).low)) return {};
  return fmt::format("values of {} have no smallest one, so a cap from above does not bound them",
                     to_string(subject.metric));
}

std::string_view to_string(QuantileOver over) {
  switch (over) {
    case QuantileOver::average_sequence:
      return "average_sequence";
    case QuantileOver::rows:
      return "rows";
    case QuantileOver::sequences:
      return "sequences";
  }
  return {};
}

std::string why_no_share_of_rows(const Clause& clause, const Contract& contract) {
  const auto* subject = std::get_if<MetricSubject>(&clause.subject);
  const bool asked = subject != nullptr && is_quantile(*subject) && clause.over == QuantileOver::rows;
  if (!asked || contract.assumptions.max_tokens > 0) return {};
  return "over: rows counts each row alike, so that a sequence has as much say as it has rows, and the exact "
         "limit of "
         "that share needs the most tokens that a sequence can have; state assumptions.max_tokens, or write "
         "over: average_sequence (each sequence counts once) or over: sequences (sequences whose mean is "
         "beyond)";
}

std::string why_no_exact_mean(const Clause& clause, const Contract& contract) {
  if (contract.confidence.means == Means::approximate || !limits_a_mean(clause)) return {};
  const auto& subject = std::get<MetricSubject>(clause.subject);
  if (!clause.clip && !has_finite_range(subject.metric)) {
    if (!clause.limits.max_delta) return unbounded_text(subject);
    return fmt::format(
        "differences of {} have no largest one, so no exact method can prove a limit of their "
        "mean; write confidence: {{means: approximate}}",
        to_string(subject.metric));
  }
  if (!weighs_tokens(subject) || contract.assumptions.max_tokens > 0) return {};
  return "the aggregate mean gives a sequence as much say as it has tokens, so its exact limit needs the "
         "most "
         "tokens that a sequence can have; write aggregate: sequence_mean (each sequence counts once), or "
         "state "
         "assumptions.max_tokens, or write confidence: {means: approximate}";
}

const Clause* quantile_beside(const Clause& clipped, const Contract& contract) {
  const auto* subject = std::get_if<MetricSubject>(&clipped.subject);
  if (subject == nullptr || !clipped.clip || !clipped.limits.max) return nullptr;
  const auto found = std::ranges::find_if(contract.clauses, [&](const Clause& other) {
    const auto* tail = std::get_if<MetricSubject>(&other.subject);
    return tail != nullptr && tail->metric == subject->metric && other.over == QuantileOver::sequences &&
           is_quantile(*tail) && other.limits.max && *other.limits.max <= *clipped.clip &&
           !other.limits.floor_multiple && covers(other, clipped);
  });
  return found == contract.clauses.end() ? nullptr : &*found;
}

namespace detail {
namespace {

void read_over(Fields& fields, const MetricSubject& subject, Clause& clause) {
  static constexpr std::array<std::string_view, 3> kUnits{"average_sequence", "rows", "sequences"};
  const auto at = fields.find("over");
  if (at) {
    const auto index = read_choice(*at, kUnits);
    if (!index) return;
    if (!is_quantile(subject) || !of_captures(subject.metric)) {
      return at->refuse(
          "over says what a quantile of captures counts; remove it, or state a quantile such as "
          "aggregate: p97");
    }
    clause.over = static_cast<QuantileOver>(*index);
  }
  if (clause.over == QuantileOver::sequences || !is_quantile(subject) ||
      info(subject.metric).group != MetricGroup::realised)
    return;
  (at ? *at : fields.cursor())
      .refuse(
          fmt::format("of {} one figure a sequence is kept, so its quantiles are of sequences; write over: "
                      "sequences",
                      to_string(subject.metric)));
}

void read_clip(Fields& fields, const MetricSubject& subject, Clause& clause) {
  const auto at = fields.find("clip");
  if (!at) return;
  if (std::string why = why_no_clip(subject); !why.empty()) return at->refuse(why + "; remove clip");
  if (!clause.limits.max && !clause.limits.min)
    return at->refuse("clip stands only beside max or min; remove it");
  const MetricInfo& entry = info(subject.metric);
  clause.clip = read_number(*at, {entry.low, entry.high, true, true});
  const double limit =
      clause.limits.floor_cap.value_or(clause.limits.max.value_or(clause.limits.min.value_or(0)));
  if (!clause.clip || *clause.clip > limit) return;
  at->refuse_kind(
      fmt::format("a clip over {}, the largest limit of the clause: each sequence's mean counts as at "
                  "most the clip, so nothing could be decided at it",
                  ecmascript_number(limit)));
}

}  // namespace

void read_means(Fields& fields, Clause& clause) {
  const auto* subject = std::get_if<MetricSubject>(&clause.subject);
  if (subject == nullptr) {
    for (const char* name : {"clip", "over"}) {
      const auto at = fields.find(name);
      if (at) at->refuse(fmt::format("{} is for clauses on a metric; remove it", name));
    }
    return;
  }
  read_over(fields, *subject, clause);
  read_clip(fields, *subject, clause);
}

void check_means(const Contract& contract, std::vector<Fault>& faults) {
  const auto faulty = [&](const Clause& clause) {
    return std::ranges::any_of(
        faults, [&](const Fault& fault) { return fault.position.line == clause.position.line; });
  };
  for (const Clause& clause : contract.clauses) {
    const Limits& limits = clause.limits;
    // A clause with another fault on its line says enough.
    if (!(limits.max || limits.min || limits.max_delta) || faulty(clause)) continue;
    std::string why = why_no_exact_mean(clause, contract);
    if (why.empty()) why = why_no_share_of_rows(clause, contract);
    if (!why.empty()) faults.push_back({clause.position, "", clause.address() + ": " + why});
  }
}

void warn_clips(const Contract& contract, std::vector<Fault>& warnings) {
  for (const Clause& clause : contract.clauses) {
    if (!clause.clip || !clause.limits.max || quantile_beside(clause, contract) != nullptr) continue;
    const auto& subject = std::get<MetricSubject>(clause.subject);
    warnings.push_back(
        {clause.position, "",
         fmt::format(
             "{} counts each sequence's mean as at most {}, and no clause says how many sequences may lie "
             "above that; add {{id: {}-tail, metric: {}, aggregate: p97, over: sequences, max: {}}} for "
             "the same stages and slices",
             clause.address(), ecmascript_number(*clause.clip), clause.id, to_string(subject.metric),
             ecmascript_number(*clause.clip))});
  }
}

}  // namespace detail
}  // namespace driftgate::schema
