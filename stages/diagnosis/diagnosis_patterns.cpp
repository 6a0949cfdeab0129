#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stages/diagnosis/diagnosis_scope.hpp"
#include "stages/report/wording.hpp"

// The patterns that a diagnosis knows. Every threshold here is judgement: far from what rounding was seen to
// leave (tests/stages/diagnosis/diagnosis_test.cpp), and met by the injected fault.

namespace driftgate::stages {
namespace {

using schema::Metric;

constexpr std::uint64_t kLeastRows = 20;  ///< rows, pairs or tokens before anything is said of them

/// Neighbours fit at least twice as well as the row itself, which does not fit.
constexpr double kShiftFit = 0.5, kShiftGap = 0.05;
/// tv of another distribution, while the entropy is that of the same one.
constexpr double kPermutedTv = 0.3, kPermutedGap = 0.1;
/// Entropies that move one way together, while hardly a greedy token changes.
constexpr double kScaledKl = 1e-6, kScaledOneWay = 0.85, kScaledCoherence = 0.9;
constexpr double kScaledFlips = 0.1, kScaledOverlap = 0.9;
/// Weights of four bits were published at a KL of some 0.01 to 0.1 nats and below a tenth of greedy tokens
/// changed, those of eight bits below 0.02.
constexpr double kBeyondRoundingKl = 0.2, kBeyondRoundingFlips = 0.15, kBeyondRoundingLogRatio = 0.4;
constexpr double kCoarseKl = 0.02, kCoarseFlips = 0.03;
/// In all sequences, and not on some of their rows alone.
constexpr double kEverySequence = 1.0 / 3, kMostRows = 0.55;
constexpr double kFilteredRows = 0.9;
/// Realised tokens alone: K_inf likelier on nearly every one, by no more than a filter renormalises.
constexpr double kOneSided = 0.97, kKeptMassNats = 2.5, kOneSidedMean = 0.01;
constexpr double kBf16Share = 0.9;

double mean(double sum, std::uint64_t n) {
  return n == 0 ? 0 : sum / static_cast<double>(n);
}

void say_filtered(Suspicion& s) {
  s.looks_like = "a sampling filter (top-k, top-p, min-p) applied before the capture";
  s.next =
      "Capture raw logits, before processors, penalties and filters, and state sampling_filter; the bounds "
      "of "
      "the certificate do not hold across a filter.";
}

bool look_for_shift(const ScopeFigures& figures, const Scope& scope, Diagnosis& out) {
  const auto shifted = [&](const gpu::RowContrast::Shift& shift, const char* what) {
    if (shift.pairs < kLeastRows || mean(shift.own, shift.pairs) < kShiftGap) return false;
    const double best = std::min(shift.next, shift.previous);
    if (best > kShiftFit * shift.own) return false;
    const bool next = shift.next <= shift.previous;
    Suspicion& s = add_suspicion(out, Pattern::off_by_one, scope.text);
    s.looks_like = "rows shifted by one position";
    s.because = fmt::format(
        "the {} that K_inf gives a row is that of K_train's {} row within {}, and differs by {} from that of "
        "its "
        "own row (means over {} pairs of adjacent rows)",
        what, next ? "next" : "previous", figure(mean(best, shift.pairs)),
        figure(mean(shift.own, shift.pairs)), count_text(shift.pairs));
    s.next = fmt::format(
        "Check which position the inference engine reports for a token: its rows seem to be one {}.",
        next ? "ahead, as when logits are those after the token instead of before it" : "behind");
    s.figures = {{"pairs", static_cast<double>(shift.pairs)},
                 {"own", mean(shift.own, shift.pairs)},
                 {"next", mean(shift.next, shift.pairs)},
                 {"previous", mean(shift.previous, shift.pairs)}};
    return true;
  };
  return shifted(figures.contrast.entropy, "entropy") ||
         (figures.rows == 0 && shifted(figures.contrast.logprob, "log-probability"));
}

bool look_for_permutation(const ScopeFigures& f, const Scope& scope, Diagnosis& out) {
  if (f.rows < kLeastRows || !(f.tv > kPermutedTv) || !(f.entropy_gap < kPermutedGap * f.tv)) return false;
  Suspicion& s = add_suspicion(out, Pattern::permuted_columns, scope.text);
  s.looks_like = "the right probabilities on the wrong tokens: columns of the head in another order";
  s.because = fmt::format(
      "mean tv is {} and {} of greedy tokens differ, yet the entropies of the two kernels differ by {} nats "
      "only "
      "on average, as they do when one row is a reordering of the other",
      figure(f.tv), percent(f.flips), figure(f.entropy_gap));
  s.next =
      "Compare the order of the head's shards and the tokenizer or vocabulary files of the two kernels; look "
      "at which tokens changed places in the worst rows.";
  s.figures = {{"tv", f.tv}, {"top1_flip", f.flips}, {"entropy_gap", f.entropy_gap}};
  return true;
}

bool look_for_scale(const ScopeFigures& f, const Scope& scope, Diagnosis& out) {
  if (f.rows < kLeastRows || !(f.kl > kScaledKl) || !(f.one_way >= kScaledOneWay)) return false;
  if (!(f.coherence >= kScaledCoherence)) return false;
  if (!(f.flips <= kScaledFlips) || !(f.overlap >= kScaledOverlap)) return false;
  Suspicion& s = add_suspicion(out, Pattern::scaled_logits, scope.text);
  s.looks_like =
      fmt::format("logits multiplied by a factor {} 1, near {:.3g}", f.sharper ? "above" : "below", f.scale);
  s.because = fmt::format(
      "K_inf is {} on {} of {} rows while both kernels rank tokens alike: {} of greedy tokens change and {} "
      "of the top-k sets are shared, at a mean kl_inf_train of {}",
      f.sharper ? "sharper" : "flatter", percent(f.one_way), count_text(f.rows), percent(f.flips),
      percent(f.overlap), figure(f.kl));
  s.next =
      "Check dequantisation scales of the head and the last norm, the logit scale or soft-cap, and whether a "
      "temperature was applied to one capture before it was written.";
  s.figures = {{"one_way", f.one_way}, {"coherence", f.coherence},  {"factor", f.scale},
               {"top1_flip", f.flips}, {"topk_overlap", f.overlap}, {"kl_inf_train", f.kl}};
  return true;
}

bool look_for_finite_filter(const ScopeFigures& f, const Scope& scope, Diagnosis& out) {
  if (f.rows >= kLeastRows) {
    if (!(f.wide_sequences >= kFilteredRows)) return false;
    Suspicion& s = add_suspicion(out, Pattern::truncated_support, scope.text);
    say_filtered(s);
    s.looks_like += ", or columns that the captures mask with different numbers";
    s.because = fmt::format(
        "in {} of sequences every row has a logit_span over {}: some logits were replaced by large negative "
        "numbers in one capture",
        percent(f.wide_sequences), figure(kWideSpan));
    s.next += " Columns of padding and banned tokens are -Infinity in both.";
    s.figures = {{"sequences_with_wide_span", f.wide_sequences}};
    return true;
  }
  const gpu::RowContrast& c = f.contrast;
  if (f.rows > 0 || c.tokens < kLeastRows) return false;
  const double share = mean(static_cast<double>(c.inf_likelier), c.tokens);
  if (share < kOneSided || f.log_ratio.min < -kKeptMassNats || f.log_ratio.mean() > -kOneSidedMean)
    return false;
  Suspicion& s = add_suspicion(out, Pattern::truncated_support, scope.text);
  say_filtered(s);
  s.because = fmt::format(
      "K_inf gives {} of {} target tokens a higher probability than K_train, by {} nats on average and "
      "never "
      "more than {}: what renormalising over the tokens that a filter keeps does",
      percent(share), count_text(c.tokens), figure(-f.log_ratio.mean()), figure(-f.log_ratio.min));
  s.figures = {
      {"inf_likelier", share}, {"log_ratio_mean", f.log_ratio.mean()}, {"log_ratio_min", f.log_ratio.min}};
  return true;
}

constexpr const char* kWrongWeights =
    "other weights, or another configuration: another checkpoint, layers missing, swapped or loaded twice";
constexpr const char* kCompareWeights =
    "Compare the checkpoint digests and the conversion's list of tensors; run the engine's float32 or bf16 "
    "kernel on the same weights: if that drifts as much, the weights differ and not the kernel.";

}  // namespace

Suspicion& add_suspicion(Diagnosis& out, Pattern pattern, std::string where) {
  Suspicion& suspicion = out.suspicions.emplace_back();
  suspicion.pattern = pattern;
  suspicion.where = std::move(where);
  return suspicion;
}

void look_for_nonfinite(const gpu::MeasurementTable& table, Diagnosis& out) {
  if (table.nonfinite_rows == 0) return;
  gpu::Moments counts;
  for (const gpu::SequenceRow& row : table.sequences)
    counts.merge(row.metrics[static_cast<std::size_t>(Metric::nonfinite)]);
  const auto rows = static_cast<double>(table.nonfinite_rows),
             vocabulary = static_cast<double>(table.vocabulary);
  const double each = counts.sum / rows,
               share = rows / static_cast<double>(std::max<std::uint64_t>(table.rows, 1));
  const std::string place =
      fmt::format("{} of {} rows", count_text(table.nonfinite_rows), count_text(table.rows));
  const bool partial = !table.partial.mode.empty();  // counts are of log-probabilities, not of logits
  const bool filter = !partial && share >= kFilteredRows && each >= vocabulary / 2 && counts.max < vocabulary;
  Suspicion& s = add_suspicion(out, filter ? Pattern::truncated_support : Pattern::nonfinite, place);
  s.figures = {{"nonfinite_rows", rows}, {"nonfinite_per_row", each}, {"nonfinite_most", counts.max}};
  if (filter) {
    say_filtered(s);
    s.because = fmt::format(
        "{} of rows have infinite logits in one capture alone, {} of {} on average and never all: a filter "
        "sets "
        "the tokens that it drops to minus infinity",
        percent(share), figure(each), count_text(table.vocabulary));
    return;
  }
  const bool whole = !partial && each >= vocabulary;
  // The same number of them on nearly every row: a place in the vocabulary, and not an accident of a row.
  const bool columns =
      !partial && !whole && rows >= kLeastRows && share >= kFilteredRows && counts.max == each;
  s.looks_like = partial ? "log-probabilities that overflowed or were never computed"
                 : whole ? "rows that the kernel did not compute: NaN in the last hidden state"
                 : columns
                     ? "columns that one capture alone masks with -Infinity (padding of the vocabulary, "
                       "banned tokens), or that its head does not compute"
                     : "single logits that overflowed or were never written";
  s.because = partial
                  ? fmt::format("{} have log-probabilities that are NaN or infinite, {} in each on average",
                                place, figure(each))
                  : fmt::format("{} have NaN or infinite logits, {} of the {} of both kernels in each{}",
                                place, figure(each), count_text(std::uint64_t{2} * table.vocabulary),
                                columns ? "" : " on average");
  if (!table.worst_rows.empty()) {
    const gpu::WorstRow& first = table.worst_rows.front();
    s.next = fmt::format("Look at row {} first (sequence {}, position {}). ", first.row, first.sequence,
                         first.position);
  }
  s.next +=
      partial ? "Look in that row's answer of the engine, and check overflow in half precision."
      : whole ? "Check attention masks of padded rows, overflow in half precision and uninitialised buffers."
      : columns
          ? "Compare the columns of the two captures there: a masked token is -Infinity in both, and takes "
            "no part then."
          : "Check the head's columns at those entries, and overflow in half precision.";
}

bool look_for_shapes(const ScopeFigures& figures, const Scope& scope, Diagnosis& out) {
  return look_for_finite_filter(figures, scope, out) || look_for_shift(figures, scope, out) ||
         look_for_permutation(figures, scope, out) || look_for_scale(figures, scope, out);
}

void look_for_weights(const ScopeFigures& f, bool from_position_0, Diagnosis& out) {
  const gpu::Moments& ratio = f.log_ratio;
  if (f.rows < kLeastRows) {
    const double size = std::sqrt(ratio.n == 0 ? 0 : ratio.sum_squares / static_cast<double>(ratio.n));
    if (f.rows > 0 || ratio.n < kLeastRows || !(size > kBeyondRoundingLogRatio)) return;
    Suspicion& s = add_suspicion(out, Pattern::wrong_weights, "all sequences");
    s.looks_like = kWrongWeights;
    s.because = fmt::format(
        "the log-ratios of {} target tokens are {} nats in root mean square, far above what rounding "
        "leaves",
        count_text(ratio.n), figure(size));
    s.next = kCompareWeights;
    s.figures = {{"log_ratio_rms", size}, {"tokens", static_cast<double>(ratio.n)}};
    return;
  }
  if (!(f.kl > kCoarseKl && f.flips > kCoarseFlips)) return;
  if (!(f.low_size >= kEverySequence && f.carried >= kMostRows)) return;
  const bool wrong = f.kl > kBeyondRoundingKl && f.flips > kBeyondRoundingFlips;
  Suspicion& s = add_suspicion(out, wrong ? Pattern::wrong_weights : Pattern::some_weights, "all sequences");
  s.looks_like = wrong ? kWrongWeights
                       : "weights that are off in part: a head or a matrix missing or in another's place, a "
                         "part of another checkpoint, or all of them rounded to about four bits";
  if (!from_position_0)
    s.looks_like += "; or attention to other tokens (rotary base or scale, attention scale)";
  s.because = fmt::format(
      "mean kl_inf_train is {} nats and {} of greedy tokens differ, {}, in all sequences: 95% of them have "
      "at "
      "least {} of the mean drift",
      figure(f.kl), percent(f.flips),
      wrong ? "far above what rounding to four bits leaves" : "above what rounding to eight bits leaves",
      percent(f.low_size));
  if (!wrong)
    s.next = "If the kernel rounds weights or its cache to four bits, this may be their price. If not: ";
  s.next += kCompareWeights;
  if (!from_position_0)
    s.next +=
        " Capture from position 0 on: there a fault of attention leaves no trace, one of the weights does.";
  s.figures = {
      {"kl_inf_train", f.kl}, {"top1_flip", f.flips}, {"low_size", f.low_size}, {"carried", f.carried}};
}

void look_for_bf16(const gpu::MeasurementTable& table, Diagnosis& out) {
  gpu::RowContrast all;
  for (const gpu::SequenceRow& row : table.sequences) all.merge(row.contrast);
  const double train = mean(static_cast<double>(all.bf16_train), all.nonzero_train);
  const double inf = mean(static_cast<double>(all.bf16_inf), all.nonzero_inf);
  const bool train_rounded = all.nonzero_train >= kLeastRows && train >= kBf16Share;
  const bool inf_rounded = all.nonzero_inf >= kLeastRows && inf >= kBf16Share;
  if (!train_rounded && !inf_rounded) return;
  const char* side = train_rounded && inf_rounded ? "both kernels" : train_rounded ? "K_train" : "K_inf";
  Suspicion& s = add_suspicion(out, Pattern::bf16_logprobs, "all sequences");
  s.looks_like = fmt::format("log-probabilities of {} rounded to bf16 before they were written", side);
  s.because = fmt::format(
      "the 16 low bits of float32 are zero in {} of K_train's and {} of K_inf's log-probabilities; by chance "
      "it "
      "would be one in 65,536",
      percent(train), percent(inf));
  s.next =
      "Take the log-softmax in float32: rounding alone moves a log-probability by up to 0.4%, 0.02 nats at "
      "-8.";
  s.figures = {{"bf16_train", train}, {"bf16_inf", inf}};
}

void look_for_subset(const Scope& scope, Diagnosis& out) {
  if (!scope.part) return;
  const bool slice = !scope.slice.empty();
  Suspicion& s = add_suspicion(out, slice ? Pattern::one_slice : Pattern::some_sequences, scope.text);
  s.looks_like = slice ? "a fault that hits " + schema::slice_text(scope.slice) + " above all"
                       : "a fault of some sequences that no slice of the corpus describes";
  s.because = fmt::format("mean {} is {} in {} and {} in the others", scope.metric, figure(scope.inside),
                          scope.text, figure(scope.outside));
  if (scope.outside > 0) s.because += fmt::format(", {} times as much", figure(scope.inside / scope.outside));
  if (!scope.leaning.empty()) s.because += "; " + scope.leaning;
  s.next =
      slice
          ? "Compare what is special to that text: scripts and tokens that calibration data lacked, lengths "
            "that take another code path. A limit on this slice belongs into the contract."
          : "Compare how these sequences were run: replica, batch, position in the batch, cache hits, or "
            "captures mixed from two runs; the worst rows name them.";
  s.figures = {{"inside", scope.inside}, {"outside", scope.outside}};
}

}  // namespace driftgate::stages
