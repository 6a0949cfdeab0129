#include "gpu/table/measurement_merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "gpu/capture/logit_check.hpp"

namespace driftgate::gpu {

using schema::Result;

namespace {

std::size_t index_of(Metric metric) {
  return static_cast<std::size_t>(metric);
}

std::unexpected<schema::Error> refuse(const std::string& what) {
  return schema::fail(schema::ErrorCode::not_comparable, "two tables cannot be merged: " + what);
}

const char* difference(const CaptureIdentity& a, const CaptureIdentity& b) {
  if (a.kernel != b.kernel) return "kernel";
  if (a.checkpoint_digest != b.checkpoint_digest) return "checkpoint.digest";
  if (a.corpus_digest != b.corpus_digest) return "corpus.digest";
  if (a.token_source != b.token_source) return "token_source";
  if (a.sampling_filter != b.sampling_filter) return "sampling_filter";
  if (a.file_digest != b.file_digest) return "digest of the files";
  return a.temperature != b.temperature ? "temperature" : nullptr;
}

/// What differs of the captures and the options; null when nothing does.
const char* difference(const MeasurementTable& a, const MeasurementTable& b) {
  if (const char* what = difference(a.train, b.train)) return what;
  if (const char* what = difference(a.inf, b.inf)) return what;
  if (a.vocabulary != b.vocabulary) return "vocabulary";
  if (a.top_k != b.top_k) return "top_k";
  if (a.ppo_clip != b.ppo_clip) return "ppo_clip";
  if (a.is_clip != b.is_clip) return "is_clip";
  if (a.partial.mode != b.partial.mode) return "modes";
  if (a.has_tokens != b.has_tokens) return "presence of target tokens";
  if (a.rows_on_cpu.has_value() != b.rows_on_cpu.has_value()) return "kinds of device";
  if (a.thresholds != b.thresholds) return "thresholds";
  const auto where = [](const SliceHistograms& slice) -> const auto& {
    return slice.where;
  };
  const bool same = std::ranges::equal(a.slices, b.slices, {}, where, where);
  return same ? nullptr : "slices";
}

/// Adds everything but the profile.
void add(MeasurementTable& into, MeasurementTable other, std::size_t top_rows) {
  merge_unphysical(into, other, into.rows + other.rows);
  for (WorstRow& row : other.worst_rows) row.row += into.rows;
  into.rows += other.rows;
  into.nonfinite_rows += other.nonfinite_rows;
  if (into.rows_on_cpu) *into.rows_on_cpu += *other.rows_on_cpu;
  std::ranges::move(other.sequences, std::back_inserter(into.sequences));
  std::ranges::move(other.infos, std::back_inserter(into.infos));
  for (std::size_t slice = 0; slice < into.slices.size(); ++slice) {
    for (std::size_t metric = 0; metric < kRowMetricCount; ++metric) {
      into.slices[slice].histograms[metric].merge(other.slices[slice].histograms[metric]);
    }
  }
  std::ranges::move(other.worst_rows, std::back_inserter(into.worst_rows));
  std::ranges::sort(into.worst_rows, worse);
  if (into.worst_rows.size() > top_rows) into.worst_rows.resize(top_rows);
}

}  // namespace

bool mergeable(const MeasurementTable& a, const MeasurementTable& b) {
  return difference(a, b) == nullptr && a.partial.mode.empty();
}

void append_continued(MeasurementTable& into, MeasurementTable next, std::size_t top_rows) {
  into.profile = next.profile;
  add(into, std::move(next), top_rows);
}

bool worse(const WorstRow& a, const WorstRow& b) {
  const bool a_broken = a.values[index_of(Metric::nonfinite)] > 0;
  const bool b_broken = b.values[index_of(Metric::nonfinite)] > 0;
  if (a_broken && b_broken) return a.row < b.row;
  if (a_broken != b_broken) return a_broken;
  const double a_kl = a.values[index_of(Metric::kl_inf_train)];
  const double b_kl = b.values[index_of(Metric::kl_inf_train)];
  return a_kl != b_kl ? a_kl > b_kl : a.row < b.row;
}

Result<void> merge(MeasurementTable& into, MeasurementTable other, std::size_t top_rows) {
  if (const char* what = difference(into, other)) return refuse(fmt::format("the {} differ", what));
  if (!into.partial.mode.empty()) {
    // Findings apply to whole captures, and tables with bounds have findings.
    return refuse("only a part of each distribution is known (mode " + into.partial.mode + ")");
  }
  std::unordered_set<std::int64_t> known;
  for (const SequenceRow& row : into.sequences) known.insert(row.sequence);
  for (const SequenceRow& row : other.sequences) {
    if (known.contains(row.sequence))
      return refuse(fmt::format("sequence {} is in both, and a sequence is never split", row.sequence));
  }
  into.profile.merge(other.profile);
  add(into, std::move(other), top_rows);
  return {};
}

}  // namespace driftgate::gpu
