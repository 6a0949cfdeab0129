#include "gpu/cpu/moment_row.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "gpu/cpu/row_figures.hpp"
#include "schema/metrics.hpp"

namespace driftgate::gpu::cpu {

namespace {

constexpr std::uint32_t kLeastColumns = 64;  // of fewer, errors do not average out
constexpr double kLargestLogit = 30'000.0;   // over the temperature: its exponent must fit beside `magic`
constexpr double kFloorBelow = 60.0;         // nats below the top: less adds nothing
constexpr double kTopExponent = 40.0;        // e of the top is about 2^40: no subnormal product
constexpr double kRise = 40.0;               // nats that a later top may lie above the reference
constexpr double kFormReach[kMomentForms] = {0.09, 0.36, 1.2};  // |d'| of the first tile
constexpr double kRemainder = 2e-7;  // of a divergence, in terms that the series leave out
constexpr double kLost = 6.0;        // cancellation that sums of float32 terms bear
constexpr double kOff = 0.25,
                 kFarOff = 4.0;        // (mean d')² over the variance: the pivot is moved, at once if far
constexpr std::size_t kManyTiles = 8;  // so that the first, about a bad pivot, is a small part
constexpr double kWellCentred = 25.0;  // (Σd')²/n over the centred squares: keeps logit_rms

double& at(driftgate_row& row, schema::Metric metric) {
  return row.values[static_cast<std::size_t>(metric)];
}

bool well_centred(const MomentSums& sums) {
  if (!(sums.n > 0)) return true;
  const double square = sums.d1 * sums.d1 / sums.n;
  return square <= kWellCentred * (sums.d2 - square);
}

double stretch_of(const MomentFrame& frame, double temperature) {
  return 1 / (temperature * static_cast<double>(frame.inverse_temperature));
}

/// e stands for e^{x(1+ε)}, by what `steps` rounds off.
double weight_error_of(const MomentFrame& frame, bool exact, double steps) {
  const double low = exact ? static_cast<double>(frame.steps_low) : 0.0;
  return (static_cast<double>(frame.steps) + low) / steps - 1;
}

}  // namespace

MomentRow::MomentRow(const MomentKernel& kernel, std::uint32_t vocabulary, std::uint32_t top_k, bool core,
                     std::vector<float>& scratch)
    : kernel_(kernel),
      vocabulary_(vocabulary),
      top_k_(top_k),
      core_(core),
      scratch_(scratch),
      frames_((vocabulary + kTileColumns - 1) / kTileColumns) {}

bool MomentRow::measure(const driftgate_batch& batch, std::uint64_t index, TopList& top_train,
                        TopList& top_inf, driftgate_row& out) {
  if (vocabulary_ < kLeastColumns || batch.train.dtype != batch.inf.dtype) return false;
  Way way;
  for (;;) {
    switch (attempt(batch, index, top_train, top_inf, way, out)) {
      case Outcome::done:
        return true;
      case Outcome::refused:
        return false;
      case Outcome::raise:
        if (++way.form == kMomentForms) return false;
        break;
      case Outcome::exact:
        way.exact = true;
        break;
    }
  }
}

TileInput MomentRow::input_of(const driftgate_batch& batch, std::uint64_t index, std::size_t tile) const {
  const std::size_t first = tile * kTileColumns;
  const auto start = [&](const driftgate_logits& logits) {
    return static_cast<const unsigned char*>(logits.data) + index * logits.row_stride_bytes +
           first * element_bytes(logits.dtype);
  };
  return {start(batch.train),
          start(batch.inf),
          batch.train.dtype,
          batch.inf.dtype,
          static_cast<std::uint32_t>(std::min<std::size_t>(kTileColumns, vocabulary_ - first)),
          static_cast<std::uint32_t>(first),
          batch.temperature};
}

MomentRow::Outcome MomentRow::attempt(const driftgate_batch& batch, std::uint64_t index, TopList& top_train,
                                      TopList& top_inf, Way& way, driftgate_row& out) {
  State state;
  state.exact = way.exact, state.form = way.form;
  state.frame.inverse_temperature = static_cast<float>(1 / batch.temperature);
  const double steps = kernel_.steps * std::numbers::log2e / batch.temperature;
  state.frame.steps = static_cast<float>(steps);
  state.frame.steps_low = static_cast<float>(steps - static_cast<double>(state.frame.steps));
  state.frame.magic = 0x1.8p23F;
  top_train.size = top_inf.size = 0;
  for (std::size_t tile = 0; tile < frames_.size(); ++tile) {
    if (!sum_tile(input_of(batch, index, tile), tile, top_train, top_inf, state, way))
      return Outcome::refused;
  }
  return state.any ? finish(batch, index, top_train, top_inf, state, way, out) : Outcome::refused;
}

/// By the drifts of the first tile: how many powers, and whether z − y needs what it rounds off.
bool MomentRow::choose(const TileInput& input, State& state, Way& way) const {
  float low = 0, high = 0;
  kernel_.range(input, low, high);
  const double span = (static_cast<double>(high) - static_cast<double>(low)) / input.temperature;
  const double above = static_cast<double>(high) / input.temperature - state.pivot;
  const double below = state.pivot - static_cast<double>(low) / input.temperature;
  const double size = std::max(above, below);
  while (size > kFormReach[way.form]) {
    if (++way.form == kMomentForms) return false;
  }
  constexpr double kManySpans = 4, kHalfBeside = 1;
  const double allowed = input.train_dtype == DRIFTGATE_F32 ? kManySpans * span : kHalfBeside;
  way.exact = input.temperature != 1.0 || std::abs(state.pivot) > allowed;
  way.chosen = true;
  state.exact = way.exact, state.form = way.form;
  set_pivot(state, state.top_drift);
  return true;
}

/// The largest logit so far is `column` of this tile. The pivot becomes about the mean drift with it, so that
/// sums about it cancel little. False when the sums lose too much by the move.
bool MomentRow::raise_top(const TileInput& input, float top_z, std::size_t column, State& state) const {
  const auto z = static_cast<double>(top_z);
  const double y = logit_at(input.inf, input.inf_dtype, static_cast<std::int64_t>(column));
  MomentFrame& frame = state.frame;
  const auto inverse = static_cast<double>(frame.inverse_temperature);
  const double drift = (z - y) * inverse;
  const auto top = static_cast<double>(top_z * frame.inverse_temperature);
  if (!(std::abs(drift) < kLargestLogit)) return false;
  MomentSums& sums = state.sums;
  const bool rebase = !state.any || top > state.reference_top + kRise;
  const double reference =
      rebase ? kernel_.steps * (std::floor(top * std::numbers::log2e) - kTopExponent) : state.reference;
  double pivot = drift;
  if (state.any) {
    add_column(sums, static_cast<double>(sums.top_e), state.top_drift - state.pivot);
    const double factor = std::exp2((state.reference - reference) / kernel_.steps);
    scale(sums, factor);
    state.bulk *= factor;
    const double e = std::exp2(top * std::numbers::log2e - reference / kernel_.steps);
    const double mean = state.pivot + (sums.m[0] > 0 ? sums.m[1] / sums.m[0] : 0);
    pivot = (sums.m[0] * mean + e * drift) / (sums.m[0] + e);
    if (!repivot(state, pivot, top - state.top)) return false;
  } else {
    set_pivot(state, pivot);
    sums.low = std::numeric_limits<double>::infinity(), sums.high = -sums.low;
  }
  if (rebase) {
    state.reference_top = top;
    frame.floor = static_cast<float>(z - kFloorBelow / inverse);
    frame.magic = static_cast<float>(0x1.8p23 - reference);
  }
  frame.top = static_cast<float>(top);
  frame.top_z = top_z;
  state.top = top, state.reference = reference, state.top_z = top_z, state.top_drift = drift;
  state.any = true;
  return true;
}

/// The pivot as the kernels will use it: of the low part they take note only in the exact form.
void MomentRow::set_pivot(State& state, double pivot) {
  MomentFrame& frame = state.frame;
  frame.pivot = static_cast<float>(pivot);
  frame.pivot_low = state.exact ? static_cast<float>(pivot - static_cast<double>(frame.pivot)) : 0.0F;
  state.pivot = static_cast<double>(frame.pivot) + static_cast<double>(frame.pivot_low);
}

/// Moves the pivot to `pivot`. False when logit_rms would lose too much.
bool MomentRow::repivot(State& state, double pivot, double rise) const {
  MomentSums& sums = state.sums;
  if (!core_ && !well_centred(sums)) return false;
  const double before = state.pivot;
  set_pivot(state, pivot);
  const double delta = state.pivot - before;
  state.bulk = std::max(state.bulk, sums.m[2] + 2 * std::abs(delta * sums.m[1]) + delta * delta * sums.m[0]);
  move(sums, state.form, delta, rise);
  return true;
}

/// The distance of the mean drift from the pivot, 0 if its square is at most `lenience` of the variance.
double MomentRow::off_centre(const State& state, double lenience) {
  const MomentSums& sums = state.sums;
  const double e = static_cast<double>(sums.top_e), d = state.top_drift - state.pivot;
  const double all = sums.m[0] + e;
  const double mean = (sums.m[1] + e * d) / all, square = (sums.m[2] + e * d * d) / all;
  return mean * mean > lenience * (square - mean * mean) ? mean : 0.0;
}

bool MomentRow::sum_at_once(const TileInput& input, std::size_t tile, TopList& top_train, TopList& top_inf,
                            State& state, const Way& way) {
  // Reading 16-bit logits twice costs less than what is begun in vain.
  if (input.train_dtype != DRIFTGATE_F32 || input.columns % kernel_.lanes != 0) return false;
  if (!state.any || !way.chosen) return false;
  float* e = scratch_.data() + 2 * tile * kTileColumns;
  const MomentSums before = state.sums;
  MomentScan scan;
  const MomentStatus status = kernel_.sum_and_scan(input, state.frame, way.form, way.exact, core_, e,
                                                   e + kTileColumns, state.sums, scan);
  if (status != MomentStatus::done) return false;
  const double limit = kLargestLogit * input.temperature;
  if (!(static_cast<double>(scan.top_z) > -limit) || !settle(tile, off_centre(state, kOff), state)) {
    state.sums = before;
    return false;
  }
  kernel_.offer(input, scan, top_train, top_inf);
  return true;
}

bool MomentRow::sum_tile(const TileInput& input, std::size_t tile, TopList& top_train, TopList& top_inf,
                         State& state, Way& way) {
  if (sum_at_once(input, tile, top_train, top_inf, state, way)) return true;
  MomentScan scan;
  kernel_.scan(input, scan);
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const double limit = kLargestLogit * input.temperature;
  const auto top_z = static_cast<double>(scan.top_z);
  if (!(top_z < limit && (top_z > -limit || scan.top_z == kNone))) return false;
  std::size_t column = kNoColumn;
  const bool first = !state.any;
  if (scan.top_z != kNone && (first || scan.top_z > state.top_z)) {
    column = kernel_.first_top(input, scan);
    if (!raise_top(input, scan.top_z, column, state)) return false;
  }
  if (state.any && !way.chosen && !choose(input, state, way)) return false;
  if (!sum_columns(input, tile, column, first, state, way)) return false;
  kernel_.offer(input, scan, top_train, top_inf);
  return true;
}

/// Sums the tile, again about a better pivot where the first was bad and is much of the row.
bool MomentRow::sum_columns(const TileInput& input, std::size_t tile, std::size_t column, bool first,
                            State& state, const Way& way) {
  float* e = scratch_.data() + 2 * tile * kTileColumns;
  float* d = e + kTileColumns;
  const auto run = [&](bool masked) {
    return kernel_.sum(input, state.frame, way.form, way.exact, core_, masked, column, e, d, state.sums);
  };
  const auto run_any = [&] {
    const MomentStatus status = run(false);
    return (status == MomentStatus::nonfinite ? run(true) : status) == MomentStatus::done;
  };
  const MomentSums before = state.sums;
  if (!run_any()) return false;
  if (!state.any) {
    frames_[tile] = {};  // not those of the row before
    return true;
  }
  double off = off_centre(state, kOff);
  if (first && off != 0 && (frames_.size() < kManyTiles || off_centre(state, kFarOff) != 0)) {
    state.sums = before;
    set_pivot(state, state.pivot + off);
    if (!run_any()) return false;
    off = 0;
  }
  if (column != kNoColumn) d[column] = static_cast<float>(state.top_drift - state.pivot);
  return settle(tile, off, state);
}

bool MomentRow::settle(std::size_t tile, double off, State& state) {
  frames_[tile] = {state.pivot, state.reference, false};
  if (off == 0 || tile + 1 == frames_.size()) return true;
  return repivot(state, state.pivot + off, 0);
}

/// tv and the head sets. In each tile d = (d' + its pivot − the row's) + offset.
Pass2 MomentRow::distances(const State& state, const MomentFigures& figures, double stretch) const {
  Pass1 rough{};
  rough.n = state.sums.n, rough.l_p = 1;
  // So that choose_heads finds the divergence that is known: u and G/l_p of measurement.md, section 2.
  const double u = figures.growth - 1;
  rough.g = figures.kl_train_inf + (u - figures.offset), rough.s = rough.g - u;
  Pass2 out{};
  choose_heads(rough, out);
  const double all = state.sums.m[0] + static_cast<double>(state.sums.top_e);
  const double size = std::max(std::abs(figures.low), std::abs(figures.high));
  double tv = 0;
  for (std::size_t tile = frames_.size(); tile-- > 0;) {  // what was written last is still near
    const TileFrame& frame = frames_[tile];
    if (frame.blank) continue;
    const std::size_t columns = std::min<std::size_t>(kTileColumns, vocabulary_ - tile * kTileColumns);
    const double scale = std::exp2((frame.reference - state.reference) / kernel_.steps) / all;
    const double shift = (frame.pivot - state.pivot) + figures.offset / stretch;
    const float* e = scratch_.data() + 2 * tile * kTileColumns;
    float least[kHeads];
    for (std::size_t i = 0; i < kHeads; ++i) least[i] = static_cast<float>(out.heads[i].least_p / scale);
    MomentDistances found;
    kernel_.distances(e, e + kTileColumns, columns, static_cast<float>(shift), static_cast<float>(size),
                      least, found);
    tv += found.tv * scale;
    for (std::size_t i = 0; i < kHeads; ++i) {
      HeadSums& head = out.heads[i];
      head.tail_p += found.tail_p[i] * scale;
      head.tail_q += (found.tail_p[i] - found.tail_gap[i]) * scale;
      head.min_d = std::min(head.min_d, (static_cast<double>(found.low[i]) + shift) * stretch);
      head.max_d = std::max(head.max_d, (static_cast<double>(found.high[i]) + shift) * stretch);
    }
  }
  out.tv = 0.5 * tv * stretch;
  return out;
}

MomentRow::Outcome MomentRow::finish(const driftgate_batch& batch, std::uint64_t index,
                                     const TopList& top_train, const TopList& top_inf, const State& state,
                                     const Way& way, driftgate_row& out) const {
  const double stretch = stretch_of(state.frame, batch.temperature);
  MomentSums sums = state.sums;
  // What the frame's top rounded off; the top column itself has x = 0.
  move(sums, way.form, 0,
       static_cast<double>(state.top_z) * static_cast<double>(state.frame.inverse_temperature) - state.top);
  const double natural = kernel_.steps * std::numbers::log2e / batch.temperature;
  const double weight_error = core_ ? 0 : weight_error_of(state.frame, way.exact, natural);
  const MomentFigures figures =
      figures_of(sums, way.form, state.top_drift - state.pivot, weight_error, stretch);
  if (!std::isfinite(figures.offset) || !(figures.lost < kLost)) return Outcome::refused;
  const double all = sums.m[0] + static_cast<double>(sums.top_e);
  if (!(state.bulk <= kLost * figures.second * all)) return Outcome::refused;
  if (!(figures.remainder < kRemainder)) return Outcome::raise;
  constexpr double kEntropy = 3e-7, kEntropyFloor = 1e-13;
  if (!core_ && !(figures.cross_left < kEntropy * figures.entropy_inf + kEntropyFloor)) return Outcome::raise;
  if (!core_ && !well_centred(sums)) return Outcome::refused;

  Pass2 terms{};
  if (!core_) terms = distances(state, figures, stretch);
  // What z − y rounded off is at most 2^-24·|c| in each d' but the top's.
  constexpr double kRounded = 10;
  const double share = figures.rest / (1 + figures.rest);
  const double distance = core_ ? std::sqrt(figures.second) * share : terms.tv;
  if (!way.exact && std::abs(state.pivot) * share > kRounded * distance && figures.second > 0)
    return Outcome::exact;
  terms.tv = distance;
  terms.kl_train_inf = figures.kl_train_inf, terms.kl_inf_train = figures.kl_inf_train;
  terms.js = figures.js, terms.hellinger2 = figures.hellinger2, terms.chi2 = figures.chi2;
  Pass1 row{};
  row.n = sums.n;
  row.c = state.pivot * stretch;
  row.min_drift = (sums.low + state.pivot) * stretch, row.max_drift = (sums.high + state.pivot) * stretch;
  row.m2 = std::max(0.0, sums.d2 - sums.d1 * sums.d1 / sums.n) * stretch * stretch;
  row.m_p = static_cast<double>(state.top_z) / batch.temperature;
  row.l_p = 1 + figures.rest;
  row.a_p = (std::log(row.l_p) - figures.entropy_train) * row.l_p;
  row.m_q = row.m_p - row.c;
  row.l_q = row.l_p * figures.growth;
  row.a_q = (std::log(row.l_q) - figures.entropy_inf) * row.l_q;
  at(out, schema::Metric::nonfinite) = 0;
  SummedRow summed{row, terms, top_train, top_inf, figures.offset, top_k_, batch.temperature, std::nullopt};
  if (batch.tokens != nullptr) {
    const TileInput first = input_of(batch, index, 0);
    summed.token = RealisedLogits{logit_at(first.train, batch.train.dtype, batch.tokens[index]),
                                  logit_at(first.inf, batch.inf.dtype, batch.tokens[index])};
  }
  finish_row(summed, out);
  return Outcome::done;
}

}  // namespace driftgate::gpu::cpu
