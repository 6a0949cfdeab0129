#include "daemon/drift/reports/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "daemon/drift/reports/words.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::drift {

namespace {

using schema::ClauseVerdict;
using schema::Metric;
using schema::Verdict;

constexpr std::size_t kRowsNamed = 3;

int gravity(Verdict verdict) {
  switch (verdict) {
    case Verdict::violated:
      return 3;
    case Verdict::error:
      return 2;
    case Verdict::inconclusive:
      return 1;
    case Verdict::pass:
      break;
  }
  return 0;
}

bool blocks(const ClauseVerdict& verdict) {
  return schema::combine({verdict}) != Verdict::pass;
}

/// How far the estimate is from the limit, for comparing slices of one clause.
double beyond(const ClauseVerdict& verdict) {
  const std::optional<double> limit = limit_of(verdict);
  if (!verdict.estimate || !limit) return 0;
  const double difference = *verdict.estimate - *limit;
  return verdict.limit_kind.starts_with("min") ? -difference : difference;
}

bool graver(const ClauseVerdict* a, const ClauseVerdict* b) {
  const auto key = [](const ClauseVerdict* v) {
    return std::tuple(!blocks(*v), -gravity(v->verdict), -beyond(*v));
  };
  return key(a) < key(b);
}

bool matches(const gpu::SequenceInfo* info, const schema::SliceWhere& where) {
  if (info == nullptr) return where.empty();
  return std::ranges::all_of(where, [info](const auto& attribute) {
    const auto found = info->slices.find(attribute.first);
    return found != info->slices.end() && found->second == attribute.second;
  });
}

std::string mean_beside_corpus(const DriftReport& report, const gpu::Summary& slice) {
  const double mean = least_mean(slice, Metric::kl_inf_train);
  const double corpus = least_mean(report.corpus, Metric::kl_inf_train);
  if (std::isnan(mean)) {
    return slice.nonfinite_rows > 0 ? ", " + counted(slice.nonfinite_rows, "row") + " not finite"
                                    : std::string{};
  }
  const bool lower_bounds = !report.table->partial.mode.empty();
  std::string out =
      fmt::format(", mean kl_inf_train {}{}", lower_bounds ? "at least " : "", stages::figure(mean));
  if (corpus > 0 && !lower_bounds) out += fmt::format(", {:.3g} times the corpus", mean / corpus);
  return out;
}

FoundSlice described(const DriftReport& report, const schema::SliceWhere& where) {
  const auto found = std::ranges::find_if(
      report.slices, [&](const DriftSlice& slice) { return slice.summary.where == where; });
  if (found == report.slices.end()) return {where, {}};
  const gpu::Summary& summary = found->summary;
  return {where, counted(summary.sequences, "sequence") + ", " + counted(summary.rows, "row") +
                     mean_beside_corpus(report, summary)};
}

/// The slice of the clause's gravest verdict; for a clause that was decided on the corpus alone, the slice
/// that drifts most, if that is more than the corpus.
std::optional<FoundSlice> slice_of(const DriftReport& report, const Finding& finding) {
  for (const ClauseVerdict* verdict : finding.verdicts) {
    if (!verdict->where.empty() && verdict->verdict != Verdict::pass)
      return described(report, verdict->where);
  }
  const auto slices = worst_slices(report);
  if (slices.empty()) return {};
  const gpu::Summary& worst = slices.front()->summary;
  const double mean = least_mean(worst, Metric::kl_inf_train);
  const bool more =
      std::isnan(mean) ? worst.nonfinite_rows > 0 : mean > least_mean(report.corpus, Metric::kl_inf_train);
  return more ? std::optional(described(report, worst.where)) : std::nullopt;
}

using Infos = std::vector<const gpu::SequenceInfo*>;

/// What is known about the sequence of each worst row; null where nothing is.
Infos infos_of_worst(const gpu::MeasurementTable& table) {
  std::unordered_map<std::int64_t, const gpu::SequenceInfo*> wanted;
  for (const gpu::WorstRow& row : table.worst_rows) wanted.emplace(row.sequence, nullptr);
  for (const gpu::SequenceInfo& info : table.infos) {
    if (const auto found = wanted.find(info.sequence); found != wanted.end()) found->second = &info;
  }
  Infos out;
  for (const gpu::WorstRow& row : table.worst_rows) out.push_back(wanted.find(row.sequence)->second);
  return out;
}

std::vector<const gpu::WorstRow*> rows_of(const DriftReport& report, const Infos& infos,
                                          const schema::SliceWhere& where) {
  std::vector<const gpu::WorstRow*> out;
  for (std::size_t i = 0; i < infos.size() && out.size() < kRowsNamed; ++i) {
    if (matches(infos[i], where)) out.push_back(&report.table->worst_rows[i]);
  }
  return out;
}

}  // namespace

std::optional<double> limit_of(const ClauseVerdict& verdict) {
  const auto share = verdict.details.find("tolerated_fraction");
  return share == verdict.details.end() ? verdict.threshold : std::optional(share->second);
}

const gpu::SequenceInfo* info_of(const gpu::MeasurementTable& table, std::int64_t sequence) {
  const auto info = std::ranges::find(table.infos, sequence, &gpu::SequenceInfo::sequence);
  return info == table.infos.end() ? nullptr : &*info;
}

std::vector<const DriftSlice*> worst_slices(const DriftReport& report) {
  std::vector<const DriftSlice*> out;
  for (const DriftSlice& slice : report.slices) out.push_back(&slice);
  const auto kl = [](const DriftSlice* slice) {
    const double mean = least_mean(slice->summary, Metric::kl_inf_train);
    return std::isnan(mean) ? HUGE_VAL : mean;
  };
  std::ranges::stable_sort(out, [&](const DriftSlice* a, const DriftSlice* b) { return kl(a) > kl(b); });
  return out;
}

std::vector<Finding> findings_of(const DriftReport& report) {
  std::vector<Finding> out;
  for (const ClauseVerdict& verdict : report.verdicts) {
    auto found = std::ranges::find(out, verdict.clause, &Finding::clause);
    if (found == out.end()) {
      out.emplace_back().clause = verdict.clause;
      found = out.end() - 1;
    }
    found->verdicts.push_back(&verdict);
  }
  const Infos infos = infos_of_worst(*report.table);
  for (Finding& finding : out) {
    std::vector<ClauseVerdict> own;
    for (const ClauseVerdict* verdict : finding.verdicts) {
      own.push_back(*verdict);
      if (gravity(verdict->verdict) > gravity(finding.gravest)) finding.gravest = verdict->verdict;
    }
    finding.verdict = schema::combine(own);
    std::ranges::stable_sort(finding.verdicts, graver);
    if (finding.gravest == Verdict::pass) continue;
    finding.slice = slice_of(report, finding);
    finding.rows = rows_of(report, infos, finding.slice ? finding.slice->where : schema::SliceWhere{});
  }
  std::ranges::stable_sort(out, [](const Finding& a, const Finding& b) {
    return std::pair(gravity(a.verdict), gravity(a.gravest)) >
           std::pair(gravity(b.verdict), gravity(b.gravest));
  });
  return out;
}

std::vector<const ClauseVerdict*> listed_verdicts(const std::vector<Finding>& findings, std::size_t most) {
  struct Listed {
    int rank = 0;
    std::size_t order = 0;
    const ClauseVerdict* verdict = nullptr;
  };
  std::vector<Listed> listed;
  for (const Finding& finding : findings) {
    for (const ClauseVerdict* verdict : finding.verdicts) {
      const int passes = verdict->verdict == Verdict::pass ? 2 : 0;
      const int behind = verdict == finding.verdicts.front() ? 0 : 1;
      listed.push_back({passes + behind, listed.size(), verdict});
    }
  }
  std::ranges::stable_sort(listed, {}, &Listed::rank);
  if (listed.size() > most) listed.resize(most);
  std::ranges::sort(listed, {}, &Listed::order);
  std::vector<const ClauseVerdict*> out;
  for (const Listed& one : listed) out.push_back(one.verdict);
  return out;
}

std::size_t count_verdicts(const std::vector<Finding>& findings) {
  std::size_t out = 0;
  for (const Finding& finding : findings) out += finding.verdicts.size();
  return out;
}

std::string row_text(const DriftReport& report, const gpu::WorstRow& row) {
  const gpu::SequenceInfo* info = info_of(*report.table, row.sequence);
  const auto at = [&](Metric metric) { return row.values[static_cast<std::size_t>(metric)]; };
  const std::string figure = at(Metric::nonfinite) > 0
                                 ? std::string("not finite")
                                 : std::string("kl_inf_train ") +
                                       (report.table->partial.mode.empty() ? "" : "at least ") +
                                       figure_text(at(Metric::kl_inf_train));
  return fmt::format("row {} (sequence {}{}, position {}, {})", row.row, row.sequence,
                     info == nullptr || info->id.empty() ? "" : ", " + visible(info->id, kMaxNameBytes),
                     row.position, figure);
}

std::string pattern_text(const DriftReport& report) {
  std::string out;
  for (const stages::Suspicion& suspicion : report.diagnosis.suspicions) {
    if (!out.empty()) out += "; ";
    out += fmt::format("{} ({})", stages::to_string(suspicion.pattern), visible(suspicion.where));
  }
  return out;
}

std::vector<Advice> places_of(const DriftReport& report, const Finding& finding) {
  std::vector<Advice> out;
  if (finding.slice) {
    const std::string& figures = finding.slice->figures;
    out.push_back(
        {"Worst slice", place_text(finding.slice->where) + (figures.empty() ? "" : ": " + figures)});
  }
  std::string rows;
  for (const gpu::WorstRow* row : finding.rows) rows += (rows.empty() ? "" : "; ") + row_text(report, *row);
  if (!rows.empty()) out.push_back({"Worst rows", rows});
  return out;
}

std::vector<Advice> diagnosis_of(const DriftReport& report) {
  std::vector<Advice> out;
  if (const auto& suspicions = report.diagnosis.suspicions; !suspicions.empty()) {
    out.push_back({"Pattern", pattern_text(report)});
    out.push_back({"Looks like", visible(suspicions.front().looks_like) + ", because " +
                                     visible(suspicions.front().because)});
    out.push_back({"Next", visible(suspicions.front().next)});
  } else if (!report.diagnosis.summary.empty()) {
    out.push_back({"Pattern", visible(report.diagnosis.summary)});
  }
  return out;
}

}  // namespace driftgate::drift
