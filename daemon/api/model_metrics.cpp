#include "daemon/api/model_metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>

#include "daemon/api/metrics_text.hpp"
#include "daemon/store/states.hpp"
#include "schema/contract/contract.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::api {
namespace {

using pipeline::ClauseFigure;
using pipeline::DecisionFigures;
using pipeline::LatencyFigures;
using pipeline::ModelFigures;

constexpr std::array kEnds{store::PromotionState::succeeded, store::PromotionState::rejected,
                           store::PromotionState::errored,   store::PromotionState::aborted,
                           store::PromotionState::expired,   store::PromotionState::superseded};
constexpr std::array kStages{schema::Stage::offline_numeric, schema::Stage::statistical_slice,
                             schema::Stage::shadow_runtime, schema::Stage::canary};
constexpr std::array kVerdicts{schema::Verdict::pass, schema::Verdict::violated,
                               schema::Verdict::inconclusive, schema::Verdict::error};
constexpr std::array<std::string_view, 5> kSkipped{"blackout", "running", "misfire", "owner_revoked",
                                                   "refused"};
/// Kinds that others than the pipeline append.
constexpr std::array kOfOthers{schema::EvidenceKind::token_granted, schema::EvidenceKind::token_revoked,
                               schema::EvidenceKind::evidence_read, schema::EvidenceKind::evidence_redacted,
                               schema::EvidenceKind::key_rotated,   schema::EvidenceKind::epoch_changed,
                               schema::EvidenceKind::schedule_set,  schema::EvidenceKind::schedule_deleted,
                               schema::EvidenceKind::recipe_set,    schema::EvidenceKind::recipe_deleted};
constexpr std::array<std::string_view, 2> kArms{"incumbent", "candidate"};

template <typename Map, typename Key>
double count_of(const Map& counts, const Key& key) {
  const auto found = counts.find(key);
  return found == counts.end() ? 0.0 : static_cast<double>(found->second);
}

/// A family of figures: its head, then one line for each.
class Family {
 public:
  Family(std::string& out, std::string_view name, std::string_view type, std::string_view help)
      : out_(out), name_(name) {
    append_metric_head(out, name, type, help);
  }
  void add(std::string_view labels, double value) { append_metric(out_, name_, labels, value); }

 private:
  std::string& out_;
  std::string_view name_;
};

/// What the lines of one model share, made once.
struct Line {
  const ModelFigures& model;
  std::string label;  ///< model="…"
};
/// One test, with its labels.
struct ClauseLine {
  const ClauseFigure& figure;
  std::string labels;
};

std::vector<Line> lines_of(const pipeline::LiveSnapshot& live) {
  std::vector<Line> lines;
  lines.reserve(live.models.size());
  for (const auto& model : live.models) lines.push_back({model, label("model", model.standing.model)});
  return lines;
}

void add_clauses(const std::string& model, const DecisionFigures* decision, std::vector<ClauseLine>& lines) {
  if (decision == nullptr) return;
  const auto stage = label("stage", decision->stage);
  for (const auto& figure : decision->clauses)
    lines.push_back({figure, fmt::format("{},{},{},{},{}", model, stage, label("clause", figure.clause),
                                         label("slice", figure.slice), label("kind", figure.kind))});
}

std::vector<ClauseLine> clauses_of(const std::vector<Line>& models) {
  std::vector<ClauseLine> lines;
  for (const auto& line : models) {
    add_clauses(line.label, line.model.decision.get(), lines);
    add_clauses(line.label, line.model.guard.get(), lines);
  }
  return lines;
}

/// Models whose names do not fit, and tests beyond the limit of a decision.
void append_left_out(std::string& out, const pipeline::LiveSnapshot& live) {
  std::size_t clauses = 0;
  for (const auto& model : live.models)
    for (const auto* const decision : {model.decision.get(), model.guard.get()})
      if (decision != nullptr) clauses += decision->left_out;
  append_single(
      out, "driftgate_models_left_out", "gauge",
      fmt::format("Models beyond the {} that metrics by model are given of.", pipeline::kMaxFigureModels),
      static_cast<double>(live.models_left_out));
  append_single(out, "driftgate_clauses_left_out", "gauge",
                fmt::format("Tests beyond the {} of a decision that metrics by clause are given of.",
                            pipeline::kMaxFigureClauses),
                static_cast<double>(clauses));
}

/// Of models whose promotion needs telemetry now. `seen_age_ms` is what the standings are old.
void append_telemetry_ages(std::string& out, const std::vector<Line>& lines, std::int64_t seen_age_ms) {
  Family age(
      out, "driftgate_model_telemetry_age_seconds", "gauge",
      "Age of the newest telemetry window of a model in shadow or canary; -1 without one since the start.");
  for (const auto& line : lines) {
    const auto& standing = line.model.standing;
    const auto age_ms = standing.telemetry_age_ms + std::max<std::int64_t>(seen_age_ms, 0);
    if (standing.watched)
      age.add(line.label, standing.telemetry_age_ms < 0 ? -1.0 : static_cast<double>(age_ms) / 1'000);
  }
}

void append_standings(std::string& out, const std::vector<Line>& lines,
                      const std::vector<std::string>& held) {
  Family share(out, "driftgate_model_candidate_share_ratio", "gauge",
               "Share of the candidate in the route that is desired, from 0 to 1.");
  for (const auto& line : lines) share.add(line.label, line.model.standing.share);
  Family agrees(out, "driftgate_model_route_agrees", "gauge", "1 when the route was read back as desired.");
  for (const auto& line : lines) agrees.add(line.label, line.model.standing.agrees ? 1 : 0);
  Family hold(out, "driftgate_model_held", "gauge", "1 while nothing is promoted: the model is on hold.");
  for (const auto& line : lines)
    hold.add(line.label, std::ranges::binary_search(held, line.model.standing.model) ? 1 : 0);
  Family state(out, "driftgate_model_promotion", "gauge",
               "1, with the stage and state of the promotion that holds the model.");
  for (const auto& line : lines) {
    const auto& standing = line.model.standing;
    if (!standing.state.empty())
      state.add(
          fmt::format("{},{},{}", line.label, label("stage", standing.stage), label("state", standing.state)),
          1);
  }
  Family alarming(out, "driftgate_model_guard_alarming", "gauge",
                  "1 while the guard of the model alarms, or its order waits; absent without a guard.");
  for (const auto& line : lines)
    if (line.model.standing.guarded) alarming.add(line.label, line.model.standing.alarming ? 1 : 0);
  Family rollbacks(out, "driftgate_model_rollbacks_total", "counter",
                   "Candidates, and versions after their success, that lost the traffic they had.");
  for (const auto& line : lines) rollbacks.add(line.label, static_cast<double>(line.model.rollbacks));
  Family alarms(out, "driftgate_model_guard_alarms_total", "counter",
                "Alarms that the model's guards raised.");
  for (const auto& line : lines) alarms.add(line.label, static_cast<double>(line.model.alarms));
}

void append_optional(std::string& out, const std::vector<ClauseLine>& lines, std::string_view name,
                     std::string_view help, std::optional<double> ClauseFigure::*member) {
  Family family(out, name, "gauge", help);
  for (const auto& line : lines)
    if (const auto& value = line.figure.*member) family.add(line.labels, *value);
}

void append_decisions(std::string& out, const std::vector<Line>& models) {
  Family decided(out, "driftgate_decision_timestamp_seconds", "gauge",
                 "When the newest decision of a stage, or of the guard, was taken.");
  for (const auto& line : models) {
    for (const auto* const decision : {line.model.decision.get(), line.model.guard.get()})
      if (decision != nullptr)
        decided.add(fmt::format("{},{}", line.label, label("stage", decision->stage)),
                    static_cast<double>(decision->time_us) / 1e6);
  }
  const auto lines = clauses_of(models);
  append_optional(out, lines, "driftgate_clause_value", "Estimate of a clause in the newest decision.",
                  &ClauseFigure::value);
  append_optional(out, lines, "driftgate_clause_limit",
                  "Its limit; of the kinds max_ratio and max_delta, relative to the incumbent's figure.",
                  &ClauseFigure::limit);
  append_optional(out, lines, "driftgate_clause_e_value", "E-value against the limit's being kept.",
                  &ClauseFigure::e_value);
  append_optional(out, lines, "driftgate_clause_e_value_needed", "E-value at which the clause is violated.",
                  &ClauseFigure::e_needed);
  Family samples(out, "driftgate_clause_samples", "gauge", "Rows, pairs or requests that were counted.");
  for (const auto& line : lines) samples.add(line.labels, static_cast<double>(line.figure.n));
  Family verdict(out, "driftgate_clause_verdict", "gauge", "1, with the verdict.");
  for (const auto& line : lines)
    verdict.add(fmt::format("{},{}", line.labels, label("verdict", schema::to_string(line.figure.verdict))),
                1);
}

/// Whether lines of the arm are written: from before its first request on, since a rate needs the zero. A
/// candidate may come once a promotion holds the model.
bool is_shown(const Line& line, std::size_t arm) {
  const auto& seen = line.model.arms.at(arm);
  return arm == 0 || !line.model.standing.state.empty() || seen.ok + seen.failed + seen.excluded > 0;
}

void append_requests(std::string& out, const std::vector<Line>& lines) {
  Family requests(out, "driftgate_requests_total", "counter",
                  "Users' requests in the telemetry that was stored, by the arm that was asked first.");
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < kArms.size(); ++i) {
      const auto& arm = line.model.arms.at(i);
      if (!is_shown(line, i)) continue;
      const auto add = [&](std::string_view outcome, std::uint64_t count) {
        requests.add(fmt::format("{},arm=\"{}\",outcome=\"{}\"", line.label, kArms.at(i), outcome),
                     static_cast<double>(count));
      };
      add("ok", arm.ok);
      add("failed", arm.failed);
      add("excluded", arm.excluded);
    }
  }
}

void append_buckets(std::string& out, std::string_view name, const std::string& labels,
                    const LatencyFigures& figures) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < pipeline::kLatencyBounds.size(); ++i) {
    count += figures.buckets.at(i);
    fmt::format_to(std::back_inserter(out), "{}_bucket{{{},le=\"{}\"}} {}\n", name, labels,
                   pipeline::kLatencyBounds.at(i), count);
  }
  count += figures.buckets.back();
  fmt::format_to(std::back_inserter(out),
                 "{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n", name,
                 labels, count, figures.sum_s);
}

void append_histogram(std::string& out, const std::vector<Line>& lines, std::string_view name,
                      std::string_view help, LatencyFigures pipeline::ArmFigures::*member) {
  append_metric_head(out, name, "histogram", help);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < kArms.size(); ++i) {
      const auto& arm = line.model.arms.at(i);
      if (is_shown(line, i))
        append_buckets(out, name, fmt::format("{},arm=\"{}\"", line.label, kArms.at(i)), arm.*member);
    }
  }
}

}  // namespace

std::string event_metrics(const pipeline::ServiceFigures& figures) {
  const auto& live = figures.live;
  std::string out;
  append_single(out, "driftgate_pipeline_seen_age_seconds", "gauge",
                "Time since the pipeline ended a round; -1 when it has not yet.",
                figures.seen_age_ms < 0 ? -1.0 : static_cast<double>(figures.seen_age_ms) / 1'000);
  append_single(out, "driftgate_models_held", "gauge", "Models that are on hold.",
                static_cast<double>(figures.held.size()));
  append_left_out(out, live);
  Family ended(out, "driftgate_promotions_ended_total", "counter", "Promotions that ended, by outcome.");
  for (const auto state : kEnds) {
    const auto name = store::to_string(state);
    ended.add(label("outcome", name), count_of(live.ended, name));
  }
  append_single(out, "driftgate_rollbacks_total", "counter",
                "Candidates, and versions after their success, that lost the traffic they had.",
                static_cast<double>(live.rollbacks));
  append_single(out, "driftgate_guard_alarms_total", "counter", "Alarms that guards raised.",
                static_cast<double>(live.alarms));
  Family verdicts(out, "driftgate_verdicts_total", "counter", "Recorded verdicts of clauses.");
  for (const auto stage : kStages) {
    for (const auto verdict : kVerdicts) {
      const std::pair<std::string, std::string> key(schema::to_string(stage), schema::to_string(verdict));
      verdicts.add(fmt::format("{},{}", label("stage", key.first), label("verdict", key.second)),
                   count_of(live.verdicts, key));
    }
  }
  Family skipped(out, "driftgate_schedule_skipped_total", "counter",
                 "Fire times of schedules that started nothing, by why.");
  for (const auto why : kSkipped) skipped.add(label("why", why), count_of(live.skipped, why));
  Family entries(out, "driftgate_evidence_entries_total", "counter",
                 "Entries of evidence on promotions, routes, guards, jobs and what is registered, by kind.");
  for (std::size_t i = 0; i < schema::kEvidenceKinds; ++i) {
    const auto kind = static_cast<schema::EvidenceKind>(i);
    if (std::ranges::find(kOfOthers, kind) != kOfOthers.end()) continue;
    const auto name = schema::to_string(kind);
    entries.add(label("kind", name), count_of(live.entries, name));
  }
  return out;
}

std::string scrape_metrics(bool authenticated) {
  std::string out;
  append_single(
      out, "driftgate_scrape_authenticated", "gauge",
      "1 when this scrape has a token that may read about models; 0 without one or with a wrong one.",
      authenticated ? 1 : 0);
  return out;
}

std::string model_metrics(const pipeline::ServiceFigures& figures) {
  const auto lines = lines_of(figures.live);
  auto held = figures.held;
  std::ranges::sort(held);
  std::string out;
  append_standings(out, lines, held);
  append_telemetry_ages(out, lines, figures.seen_age_ms);
  append_decisions(out, lines);
  append_requests(out, lines);
  append_histogram(out, lines, "driftgate_first_token_seconds",
                   "From accepting a request to the first token of its answer, of answered requests.",
                   &pipeline::ArmFigures::first_token);
  append_histogram(out, lines, "driftgate_request_seconds",
                   "From accepting a request to the last byte of its answer, of answered requests.",
                   &pipeline::ArmFigures::total);
  return out;
}

}  // namespace driftgate::api
