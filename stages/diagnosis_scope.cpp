#include "stages/diagnosis_scope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpu/drift.hpp"
#include "stages/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::Metric;

/// A sequence stands out from this multiple of the median on.
constexpr double kStandsOut = 4;
/// Share of the sequences that stand out which a slice must hold, and of the slice's that must stand out.
constexpr double kExplains = 0.8;
/// A slice whose mean drift is this multiple of the rest's, by this many standard errors, stands out too.
constexpr double kSliceRatio = 1.5, kSliceErrors = 6;
constexpr std::uint32_t kLeastSequences = 8;

const gpu::Moments& of(const gpu::SequenceRow& sequence, Metric metric) {
  return sequence.metrics[static_cast<std::size_t>(metric)];
}

struct Sized {
  std::size_t index = 0;
  double size = 0;
};

struct MeanAndError {
  double n = 0, sum = 0, squares = 0;
  void add(double x) { n += 1, sum += x, squares += x * x; }
  [[nodiscard]] double mean() const { return sum / n; }
  [[nodiscard]] double error2() const {
    return n < 2 ? 0 : std::max(0.0, (squares - sum * sum / n) / (n - 1) / n);
  }
};

std::vector<Sized> sizes_of(const gpu::MeasurementTable& table) {
  std::vector<Sized> out;
  for (std::size_t i = 0; i < table.sequences.size(); ++i) {
    if (const auto size = drift_size(table.sequences[i])) out.push_back({i, *size});
  }
  return out;
}

double mean_of(const std::vector<Sized>& sizes, const std::vector<bool>& inside, bool wanted) {
  MeanAndError sum;
  for (const Sized& s : sizes) {
    if (inside[s.index] == wanted) sum.add(s.size);
  }
  return sum.n > 0 ? sum.mean() : 0;
}

/// The slice that holds nearly all sequences of `inside` and nearly no others; empty without one.
schema::SliceWhere describing_slice(const gpu::MeasurementTable& table, const std::vector<Sized>& sizes,
                                    const std::vector<bool>& inside) {
  schema::SliceWhere best;
  double best_score = 0;
  for (const auto& where : gpu::described_slices(table.infos, 1)) {
    double both = 0, slice = 0, all = 0;
    for (const Sized& s : sizes) {
      const bool member = gpu::in_slice(table.infos[s.index], where);
      both += member && inside[s.index] ? 1 : 0;
      slice += member ? 1 : 0;
      all += inside[s.index] ? 1 : 0;
    }
    const double score = std::min(both / std::max(slice, 1.0), both / std::max(all, 1.0));
    if (score >= kExplains && score > best_score) best = where, best_score = score;
  }
  return best;
}

/// Of the slices whose mean is clearly above the rest's the one with the largest multiple of it. A pair of
/// attributes must say clearly more than one of them alone.
schema::SliceWhere drifting_slice(const gpu::MeasurementTable& table, const std::vector<Sized>& sizes) {
  constexpr double kPairMustAdd = 1.25;
  schema::SliceWhere best;
  double best_ratio = 0;
  for (const auto& where : gpu::described_slices(table.infos, kLeastSequences)) {
    MeanAndError in, out;
    for (const Sized& s : sizes) (gpu::in_slice(table.infos[s.index], where) ? in : out).add(s.size);
    if (in.n < kLeastSequences || out.n < kLeastSequences) continue;
    const double gap = in.mean() - out.mean();
    if (!(in.mean() >= kSliceRatio * out.mean()) ||
        !(gap > kSliceErrors * std::sqrt(in.error2() + out.error2())))
      continue;
    const double ratio = out.mean() > 0 ? in.mean() / out.mean() : HUGE_VAL;
    if (ratio > best_ratio * (where.size() > 1 ? kPairMustAdd : 1)) best = where, best_ratio = ratio;
  }
  return best;
}

/// "language=de holds 4 of the 5": the value that is most over-represented among sequences that stand out.
std::string leaning(const gpu::MeasurementTable& table, const std::vector<Sized>& sizes,
                    const std::vector<bool>& inside) {
  constexpr double kLeans = 2;
  std::string text;
  double best = kLeans, all = 0;
  for (const Sized& s : sizes) all += inside[s.index] ? 1 : 0;
  for (const auto& where : gpu::described_slices(table.infos, 1)) {
    if (where.size() > 1) continue;
    double both = 0, slice = 0;
    for (const Sized& s : sizes) {
      const bool member = gpu::in_slice(table.infos[s.index], where);
      slice += member ? 1 : 0;
      both += member && inside[s.index] ? 1 : 0;
    }
    const double times = both / all / (slice / static_cast<double>(sizes.size()));
    if (both < 2 || !(times >= best)) continue;
    best = times;
    text = fmt::format("{} holds {:.0f} of the {:.0f}, and {} of all sequences", schema::slice_text(where),
                       both, all, percent(slice / static_cast<double>(sizes.size())));
  }
  return text;
}

void narrow(const std::vector<Sized>& sizes, const std::vector<bool>& inside, Scope& scope) {
  scope.part = true;
  scope.sequences.clear();
  for (const Sized& s : sizes) {
    if (inside[s.index]) scope.sequences.push_back(s.index);
  }
  scope.inside = mean_of(sizes, inside, true);
  scope.outside = mean_of(sizes, inside, false);
  scope.text =
      fmt::format("{} of {} sequences", count_text(scope.sequences.size()), count_text(sizes.size()));
  if (!scope.slice.empty()) scope.text = schema::slice_text(scope.slice) + ", " + scope.text;
}

}  // namespace

std::optional<double> drift_size(const gpu::SequenceRow& sequence) {
  const gpu::Moments& rms = of(sequence, Metric::logit_rms);
  if (rms.n > 0) return rms.mean();
  if (sequence.realised.n == 0) return std::nullopt;
  return sequence.realised.abs_log_w / static_cast<double>(sequence.realised.n);
}

ScopeFigures figures_of(const gpu::MeasurementTable& table, const Selection& sequences) {
  ScopeFigures out;
  gpu::Moments tv, kl, flips, overlap, rms, entropy;
  double abs_log_ratios = 0, tokens = 0;
  for (const std::size_t i : sequences) {
    const gpu::SequenceRow& row = table.sequences[i];
    tv.merge(of(row, Metric::tv));
    kl.merge(of(row, Metric::kl_inf_train));
    flips.merge(of(row, Metric::top1_flip));
    overlap.merge(of(row, Metric::topk_overlap));
    rms.merge(of(row, Metric::logit_rms));
    entropy.merge(of(row, Metric::entropy_train));
    out.log_ratio.merge(of(row, Metric::log_ratio));
    out.contrast.merge(row.contrast);
    abs_log_ratios += row.realised.abs_log_w;
    tokens += static_cast<double>(row.realised.n);
  }
  out.sequences = sequences.size();
  out.rows = tv.n;
  out.tv = tv.mean(), out.kl = kl.mean(), out.flips = flips.mean(), out.overlap = overlap.mean();
  out.rms = rms.mean(), out.entropy = entropy.mean();
  out.abs_log_ratio = abs_log_ratios / tokens;
  const auto rows = static_cast<double>(out.contrast.rows), up = static_cast<double>(out.contrast.entropy_up);
  out.entropy_gap = out.contrast.entropy_gap / rows;
  out.one_way = std::max(up, rows - up) / rows;
  out.sharper = up < rows - up;
  double wide = 0, even = 0, with_rows = 0;
  for (const std::size_t i : sequences) {
    const gpu::SequenceRow& row = table.sequences[i];
    if (of(row, Metric::tv).n == 0) continue;
    with_rows += 1;
    wide += of(row, Metric::logit_span).min > kWideSpan ? 1 : 0;
    even += of(row, Metric::logit_rms).min > out.rms / 4 ? 1 : 0;
  }
  out.wide_sequences = with_rows > 0 ? wide / with_rows : 0;
  out.even_sequences = with_rows > 0 ? even / with_rows : 0;
  return out;
}

Scope find_scope(const gpu::MeasurementTable& table) {
  Scope scope;
  const std::vector<Sized> sizes = sizes_of(table);
  for (const Sized& s : sizes) scope.sequences.push_back(s.index);
  scope.text = "all sequences";
  const auto has_logits = [](const gpu::SequenceRow& row) { return of(row, Metric::logit_rms).n > 0; };
  scope.metric = std::ranges::any_of(table.sequences, has_logits) ? "logit_rms" : "abs_log_ratio";
  if (sizes.size() < kLeastSequences) return scope;
  std::vector<double> sorted;
  for (const Sized& s : sizes) sorted.push_back(s.size);
  std::ranges::sort(sorted);
  const double median = sorted[(sorted.size() - 1) / 2];
  std::vector<bool> inside(table.sequences.size(), false);
  std::size_t count = 0;
  for (const Sized& s : sizes) {
    inside[s.index] = s.size > kStandsOut * median;
    count += inside[s.index] ? 1 : 0;
  }
  if (count > 0) scope.slice = describing_slice(table, sizes, inside);
  if (scope.slice.empty()) {
    scope.slice = drifting_slice(table, sizes);
    if (!scope.slice.empty()) {
      for (const Sized& s : sizes) inside[s.index] = gpu::in_slice(table.infos[s.index], scope.slice);
    }
  }
  if (count > 0 || !scope.slice.empty()) narrow(sizes, inside, scope);
  if (scope.part && scope.slice.empty()) scope.leaning = leaning(table, sizes, inside);
  return scope;
}

}  // namespace driftgate::stages
