#include "stages/diagnosis/diagnosis_scope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpu/drift.hpp"
#include "stages/report/wording.hpp"

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
/// Of the mean drift: what a sequence's positions must let expect for it to be compared with the others.
constexpr double kLeastExpected = 0.1;
/// Of the sequences by their drift: low, and not the least of all, which chance may spare.
constexpr double kLowSequences = 0.05;

const gpu::Moments& of(const gpu::SequenceRow& sequence, Metric metric) {
  return sequence.metrics[static_cast<std::size_t>(metric)];
}

struct Sized {
  std::size_t index = 0;
  double size = 0;
  double adjusted = 0;  ///< size over what its positions alone would give it, times the mean size
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
    if (const auto size = drift_size(table.sequences[i])) out.push_back({i, *size, *size});
  }
  return out;
}

std::uint64_t sized_rows(const gpu::SequenceRow& sequence) {
  const std::uint64_t rows = of(sequence, Metric::logit_rms).n;
  return rows > 0 ? rows : sequence.target.n;
}

/// Where drift depends on the position, long sequences drift more than short ones: that is taken out, where
/// the profile shows that all sequences were captured from one position on. Sequences that end before the
/// drift begins can not tell and are dropped.
void adjust_for_position(const gpu::MeasurementTable& table, std::vector<Sized>& sizes) {
  const std::vector<PositionStep> steps = position_steps(table, 1);
  if (steps.size() < 2) return;
  const std::int64_t begin = steps.front().from;
  std::vector<std::uint64_t> counts(steps.size(), 0);
  const auto rows_in = [&](std::size_t step, std::uint64_t rows) -> std::uint64_t {
    const std::int64_t end = begin + static_cast<std::int64_t>(rows);
    const std::int64_t stop = step + 1 < steps.size() ? std::min(end, steps[step + 1].from) : end;
    return stop > steps[step].from ? static_cast<std::uint64_t>(stop - steps[step].from) : 0;
  };
  double all = 0;
  for (const Sized& s : sizes) {
    all += s.size / static_cast<double>(sizes.size());
    for (std::size_t i = 0; i < steps.size(); ++i)
      counts[i] += rows_in(i, sized_rows(table.sequences[s.index]));
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (counts[i] != steps[i].rows) return;
  }
  std::erase_if(sizes, [&](Sized& s) {
    const std::uint64_t rows = sized_rows(table.sequences[s.index]);
    double expected = 0;
    for (std::size_t i = 0; i < steps.size(); ++i)
      expected += steps[i].size * static_cast<double>(rows_in(i, rows)) / static_cast<double>(rows);
    if (expected > 0) s.adjusted = s.size / expected * all;
    return expected < kLeastExpected * all;
  });
}

/// The smallest value of rank at least share · n.
double low_quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
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
    for (const Sized& s : sizes) (gpu::in_slice(table.infos[s.index], where) ? in : out).add(s.adjusted);
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

void narrow(const std::vector<Sized>& sizes, const std::vector<bool>& inside, std::size_t sized,
            Scope& scope) {
  scope.part = true;
  scope.sequences.clear();
  for (const Sized& s : sizes) {
    if (inside[s.index]) scope.sequences.push_back(s.index);
  }
  scope.inside = mean_of(sizes, inside, true);
  scope.outside = mean_of(sizes, inside, false);
  scope.text = fmt::format("{} of {} sequences", count_text(scope.sequences.size()), count_text(sized));
  if (!scope.slice.empty()) scope.text = schema::slice_text(scope.slice) + ", " + scope.text;
}

}  // namespace

std::optional<double> drift_size(const gpu::SequenceRow& sequence) {
  const gpu::Moments& rms = of(sequence, Metric::logit_rms);
  if (rms.n > 0) return rms.mean();
  if (sequence.target.n == 0) return std::nullopt;
  return sequence.target.abs_log_w / static_cast<double>(sequence.target.n);
}

ScopeFigures figures_of(const gpu::MeasurementTable& table, const Selection& sequences) {
  ScopeFigures out;
  gpu::Moments tv, kl, kl_train_inf, flips, overlap, rms, entropy, entropy_inf;
  double abs_log_ratios = 0, tokens = 0;
  for (const std::size_t i : sequences) {
    const gpu::SequenceRow& row = table.sequences[i];
    tv.merge(of(row, Metric::tv));
    kl.merge(of(row, Metric::kl_inf_train));
    kl_train_inf.merge(of(row, Metric::kl_train_inf));
    flips.merge(of(row, Metric::top1_flip));
    overlap.merge(of(row, Metric::topk_overlap));
    rms.merge(of(row, Metric::logit_rms));
    entropy.merge(of(row, Metric::entropy_train));
    entropy_inf.merge(of(row, Metric::entropy_inf));
    out.log_ratio.merge(of(row, Metric::log_ratio));
    out.contrast.merge(row.contrast);
    abs_log_ratios += row.target.abs_log_w;
    tokens += static_cast<double>(row.target.n);
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
  out.coherence = std::abs(entropy_inf.sum - entropy.sum) / out.contrast.entropy_gap;
  out.scale = 1 + (kl.sum + kl_train_inf.sum) / (entropy.sum - entropy_inf.sum - kl.sum);
  double wide = 0;
  std::vector<double> sizes, carried;
  for (const std::size_t i : sequences) {
    const gpu::SequenceRow& row = table.sequences[i];
    const gpu::Moments& size = of(row, Metric::logit_rms);
    if (size.n == 0) continue;
    wide += of(row, Metric::logit_span).min > kWideSpan ? 1 : 0;
    sizes.push_back(size.mean() / out.rms);
    carried.push_back(size.sum * size.sum / (static_cast<double>(size.n) * size.sum_squares));
  }
  out.wide_sequences = sizes.empty() ? 0 : wide / static_cast<double>(sizes.size());
  out.low_size = low_quantile(sizes, kLowSequences);
  out.carried = low_quantile(carried, 0.5);
  return out;
}

Selection everything(const gpu::MeasurementTable& table) {
  Selection all(table.sequences.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

bool below(const ScopeFigures& figures, double kl, double log_ratio) {
  if (!std::isnan(figures.kl)) return figures.kl < kl;
  return figures.abs_log_ratio < log_ratio;
}

std::vector<PositionStep> position_steps(const gpu::MeasurementTable& table, std::uint64_t least) {
  std::vector<PositionStep> out;
  const bool logits =
      std::ranges::any_of(table.profile.by_position, [](const auto& b) { return b.rows > 0; });
  for (std::size_t i = 0; i < gpu::kPositionBuckets; ++i) {
    const gpu::ProfileBucket& bucket = table.profile.by_position[i];
    const std::uint64_t rows = logits ? bucket.rows : bucket.tokens;
    if (rows == 0 || rows < least) continue;
    const auto n = static_cast<double>(rows);
    out.push_back({gpu::first_position(i), rows, (logits ? bucket.logit_rms : bucket.abs_log_ratio) / n,
                   logits ? bucket.kl_inf_train / n : std::nan("")});
  }
  return out;
}

Scope find_scope(const gpu::MeasurementTable& table) {
  Scope scope;
  std::vector<Sized> sizes = sizes_of(table);
  const std::size_t sized = sizes.size();
  adjust_for_position(table, sizes);
  scope.sequences = everything(table);
  scope.text = "all sequences";
  const auto has_logits = [](const gpu::SequenceRow& row) { return of(row, Metric::logit_rms).n > 0; };
  scope.metric = std::ranges::any_of(table.sequences, has_logits) ? "logit_rms" : "abs_log_ratio";
  if (sizes.size() < kLeastSequences) return scope;
  std::vector<double> sorted;
  for (const Sized& s : sizes) sorted.push_back(s.adjusted);
  std::ranges::sort(sorted);
  const double median = sorted[(sorted.size() - 1) / 2];
  std::vector<bool> inside(table.sequences.size(), false);
  std::size_t count = 0;
  for (const Sized& s : sizes) {
    inside[s.index] = s.adjusted > kStandsOut * median;
    count += inside[s.index] ? 1 : 0;
  }
  if (count > 0) scope.slice = describing_slice(table, sizes, inside);
  if (scope.slice.empty()) {
    scope.slice = drifting_slice(table, sizes);
    if (!scope.slice.empty()) {
      for (const Sized& s : sizes) inside[s.index] = gpu::in_slice(table.infos[s.index], scope.slice);
    }
  }
  if (count > 0 || !scope.slice.empty()) narrow(sizes, inside, sized, scope);
  if (scope.part && below(figures_of(table, scope.sequences), kRoundingKl, kRoundingLogRatio)) {
    scope = {.sequences = everything(table), .text = "all sequences", .metric = scope.metric};
  }
  if (scope.part && scope.slice.empty()) scope.leaning = leaning(table, sizes, inside);
  return scope;
}

}  // namespace driftgate::stages
