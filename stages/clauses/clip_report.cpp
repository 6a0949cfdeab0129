#include "stages/clauses/clip_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "schema/contract/contract_means.hpp"
#include "stages/report/wording.hpp"
#include "stages/statistics/distributions.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Verdict;

/// A sequence's mean, by the upper bound of each row where only bounds are known.
std::optional<double> largest_value(const gpu::MeasurementTable& table, schema::Metric metric,
                                    const gpu::SequenceRow& row) {
  const auto index = table.bounded(metric);
  if (!index) return sequence_value(metric, row);
  const gpu::Moments& most = row.bounds->metrics[*index].upper;
  if (most.n == 0) return std::nullopt;
  return most.sum / static_cast<double>(most.n);
}

struct Above {
  std::uint64_t sequences = 0, sequences_above = 0;
  std::uint64_t clusters = 0, clusters_above = 0;
};

Above count_above(const gpu::MeasurementTable& table, const Selection& selection, schema::Metric metric,
                  double clip) {
  Above count;
  const std::vector<std::size_t> numbers = cluster_numbers(table, selection);
  std::unordered_set<std::size_t> seen, above;
  for (std::size_t i = 0; i < selection.size(); ++i) {
    const auto value = largest_value(table, metric, table.sequences[selection[i]]);
    if (!value) continue;
    ++count.sequences;
    seen.insert(numbers[i]);
    if (*value <= clip) continue;
    ++count.sequences_above;
    above.insert(numbers[i]);
  }
  count.clusters = seen.size();
  count.clusters_above = above.size();
  return count;
}

const schema::Clause* find_clause(const schema::Contract& contract, const std::string& address) {
  const auto found = std::ranges::find(contract.clauses, address, &schema::Clause::address);
  return found == contract.clauses.end() ? nullptr : &*found;
}

}  // namespace

void note_clip(const gpu::MeasurementTable& table, const Selection& selection,
               const schema::MetricSubject& subject, const MetricLimit& limit, const MeanRules& rules,
               ClauseVerdict& verdict) {
  if (!rules.clip || !limit.is_max) return;
  const Above above = count_above(table, selection, subject.metric, *rules.clip);
  if (above.clusters == 0) return;
  const double share = clopper_pearson_upper(above.clusters_above, above.clusters, verdict.alpha);
  verdict.details["clip"] = *rules.clip;
  verdict.details["above_clip"] = static_cast<double>(above.sequences_above);
  verdict.details["above_clip_upper"] = share;
  const std::string seen =
      above.sequences_above == 0
          ? "No sequence lies"
          : fmt::format("{} of {} sequences {}", count_text(above.sequences_above),
                        count_text(above.sequences), above.sequences_above == 1 ? "lies" : "lie");
  verdict.message += fmt::format(" {} above the clip of {}, so that with {} confidence at most {} do", seen,
                                 figure(*rules.clip), percent(1 - verdict.alpha), percent(share));
  const auto range = finite_range(table, subject.metric);
  if (!range) {
    verdict.message += fmt::format(", and {} has no largest value: the cap bounds nothing above it.",
                                   schema::to_string(subject.metric));
  } else if (verdict.upper) {
    const double mean = *verdict.upper + share * (range->second - *rules.clip);
    verdict.details["mean_with_share_at_maximum"] = mean;
    verdict.message +=
        fmt::format("; were they all at the largest value of {}, the mean would be at most {}.",
                    figure(range->second), figure(mean));
  } else {
    verdict.message += ".";
  }
}

void note_certified_means(const schema::Contract& contract, std::vector<ClauseVerdict>& verdicts) {
  for (ClauseVerdict& verdict : verdicts) {
    const schema::Clause* clause = find_clause(contract, verdict.clause);
    const bool passed = verdict.verdict == Verdict::pass && !verdict.no_harm_only && verdict.threshold;
    if (clause == nullptr || !passed || verdict.role == schema::SliceRole::discovered) continue;
    const schema::Clause* beside = schema::quantile_beside(*clause, contract);
    if (beside == nullptr) continue;
    const auto tail = std::ranges::find_if(verdicts, [&](const ClauseVerdict& other) {
      return other.clause == beside->address() && other.where == verdict.where && other.role == verdict.role;
    });
    const auto& subject = std::get<schema::MetricSubject>(beside->subject);
    const double share = tolerated_fraction(*subject.aggregate, true);
    if (tail == verdicts.end() || tail->verdict != Verdict::pass || tail->no_harm_only) {
      verdict.message += fmt::format(
          " {} does not pass here, so that nothing is certified of sequences above the "
          "clip.",
          beside->address());
      continue;
    }
    const double high = schema::info(subject.metric).high;
    if (!schema::info(subject.metric).bounded || !std::isfinite(high)) {
      verdict.message += fmt::format(" {} passes too: at most {} of the sequences lie above the clip.",
                                     beside->address(), percent(share));
      continue;
    }
    const double certified = *verdict.threshold + share * (high - *clause->clip);
    verdict.details["certified_mean"] = certified;
    verdict.message += fmt::format(
        " {} passes too: together they certify a mean of at most {}, whatever the {} of "
        "the sequences above the clip are.",
        beside->address(), figure(certified), percent(share));
  }
}

}  // namespace driftgate::stages
