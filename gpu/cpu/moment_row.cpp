#include "gpu/cpu/moment_row.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "gpu/cpu/moment_merge.hpp"
#include "gpu/cpu/row_figures.hpp"
#include "schema/metrics.hpp"

namespace driftgate::gpu::cpu {

namespace {

constexpr std::uint32_t kLeastColumns = 64;  // in shorter rows errors do not average out
constexpr double kLargestLogit = 30'000.0;   // divided by the temperature: limited by the trick with `magic`
constexpr double kFloorBelow = 60.0;         // nats below the top: lower logits contribute nothing
constexpr double kTopExponent = 40.0;        // e of the top is about 2^40, so that no product is subnormal
constexpr double kRise = 40.0;               // nats that a later top may lie above the reference
constexpr double kFormReach[kMomentForms] = {0.09, 0.36, 1.2};  // expected |d'| of the row
constexpr double kOff = 0.25,
                 kFarOff = 4.0;  // (mean d')² over the variance: the pivot is moved, at once if far
constexpr std::uint32_t kProbeColumns = 256;  // give a first pivot before anything is summed
constexpr double kWellCentred = 25.0;         // (Σd')²/n over the centred squares: keeps logit_rms

double& at(driftgate_row& row, schema::Metric metric) {
  return row.values[static_cast<std::size_t>(metric)];
}

/// The limit for the first of so many tiles: it is summed again only when its pivot is far off relative to
/// its share of the row.
double far_off(std::size_t tiles) {
  return std::min(kFarOff, 0.75 * static_cast<double>(tiles) - kOff);
}

bool well_centred(const MomentSums& sums) {
  if (!(sums.n > 0)) return true;
  const double square = sums.d1 * sums.d1 / sums.n;
  return square <= kWellCentred * (sums.d2 - square);
}

/// The factor by which d' is too small, because 1/temperature was rounded to a float.
double stretch_of(const MomentFrame& frame, double temperature) {
  return 1 / (temperature * static_cast<double>(frame.inverse_temperature));
}

/// The range of z − y of all columns, slightly widened.
DriftRange drift_range(const MomentState& state) {
  constexpr double kSlack = 2e-6;
  const auto inverse = static_cast<double>(state.frame.inverse_temperature);
  const double low = (state.sums.low + state.pivot) / inverse;
  const double high = (state.sums.high + state.pivot) / inverse;
  const double slack = kSlack * (std::abs(static_cast<double>(state.top_z)) + std::abs(low) + std::abs(high));
  return {static_cast<float>(low - slack), static_cast<float>(high + slack)};
}

/// `count` columns of a tile, from `begin` on.
TileInput part_of(const TileInput& tile, std::size_t begin, std::size_t count) {
  TileInput part = tile;
  part.train += begin * element_bytes(tile.train_dtype);
  part.inf += begin * element_bytes(tile.inf_dtype);
  if (part.train_ahead != nullptr) part.train_ahead += begin * element_bytes(tile.train_dtype);
  if (part.inf_ahead != nullptr) part.inf_ahead += begin * element_bytes(tile.inf_dtype);
  part.first_id += static_cast<std::uint32_t>(begin);
  part.columns = static_cast<std::uint32_t>(std::min<std::size_t>(count, tile.columns - begin));
  return part;
}

/// The number by which the rounding errors of z − y, at most 2^-24·|c| in each d' but that of the top, exceed
/// what is acceptable.
constexpr double kRounded = 10;

double share_beside_top(const MomentFigures& figures) {
  return figures.rest / (1 + figures.rest);
}

/// Extremes and moments of z − y, in units of logits.
MomentPlace place_of(const RowColumns& columns, const MomentState& state, const MomentSums& sums,
                     const TopList& top_train, const TopList& top_inf) {
  const double stretch = stretch_of(state.frame, columns.temperature);
  return {top_train.entries[0].value / columns.temperature,
          top_inf.entries[0].value / columns.temperature,
          state.pivot * stretch,
          sums.n,
          (state.pivot + sums.d1 / sums.n) * stretch,
          std::max(0.0, sums.d2 - sums.d1 * sums.d1 / sums.n) * stretch * stretch,
          (sums.low + state.pivot) * stretch,
          (sums.high + state.pivot) * stretch};
}

}  // namespace

template <typename Judge>
bool MomentRow::attempt_all(Run& run, Judge judge) const {
  if (run.columns.count < kLeastColumns || run.columns.train_dtype != run.columns.inf_dtype) return false;
  for (;;) {
    switch (sum_all(run) ? judge(run) : Outcome::refused) {
      case Outcome::done:
        return true;
      case Outcome::refused:
        return false;
      case Outcome::more_powers:
        if (++run.variant.form == kMomentForms) return false;
        break;
      case Outcome::exact:
        run.variant.exact = true;
        break;
    }
  }
}

bool MomentRow::measure(const RowColumns& columns, const std::int64_t* token, MomentScratch scratch,
                        TopList& top_train, TopList& top_inf, driftgate_row& out) const {
  MomentState state;
  Run all{columns, scratch, top_train, top_inf, state};
  return attempt_all(all, [&](Run& run) { return finish(run, token, out); });
}

bool MomentRow::sum_part(const RowColumns& columns, MomentScratch scratch, TopList& top_train,
                         TopList& top_inf, MomentState& state, driftgate_shard_partial& out) const {
  Run all{columns, scratch, top_train, top_inf, state};
  return attempt_all(all, [&](Run& run) { return finish_part(run, out); });
}

bool MomentRow::sum_all(Run& run) const {
  const double temperature = run.columns.temperature;
  MomentState& state = run.state;
  state = {};
  state.exact = run.variant.exact, state.form = run.variant.form;
  state.frame.inverse_temperature = static_cast<float>(1 / temperature);
  const double steps = kernel_.steps * std::numbers::log2e / temperature;
  state.frame.steps = static_cast<float>(steps);
  state.frame.steps_low = static_cast<float>(steps - static_cast<double>(state.frame.steps));
  state.frame.magic = 0x1.8p23F;
  for (std::size_t tile = 0; tile < run.columns.tiles(); ++tile) {
    if (!sum_tile(run, tile)) return false;
  }
  return state.any;
}

/// Chooses, by the drifts of the first tile, how many powers to sum and whether the rounding error of z − y
/// is needed.
bool MomentRow::choose(const TileInput& input, Run& run) const {
  MomentState& state = run.state;
  Variant& variant = run.variant;
  const auto [low, high] = kernel_.range(input);
  const double span = (static_cast<double>(high) - static_cast<double>(low)) / input.temperature;
  const double above = static_cast<double>(high) / input.temperature - state.pivot;
  const double below = state.pivot - static_cast<double>(low) / input.temperature;
  // The largest of many drifts is expected to exceed that of few as for normal noise: summing a row in a form
  // that it then outgrows would be wasted work.
  const double growth = std::sqrt(std::log(run.columns.count) / std::log(std::max(input.columns, 2U)));
  const double size = std::max(above, below) * std::max(growth, 1.0);
  while (size > kFormReach[variant.form]) {
    if (++variant.form == kMomentForms) return false;
  }
  constexpr double kManySpans = 4, kHalfBeside = 1;
  const double allowed = input.train_dtype == DRIFTGATE_F32 ? kManySpans * span : kHalfBeside;
  variant.exact = input.temperature != 1.0 || std::abs(state.pivot) > allowed;
  variant.chosen = true;
  state.exact = variant.exact, state.form = variant.form;
  set_pivot(state, state.top_drift);
  return true;
}

/// The largest logit that may be part of the sums, where it is at most comparable to all others; one that is
/// far larger is kept apart.
float MomentRow::bearable_top(const MomentState& state, double temperature) const {
  const double all = state.sums.m[0] + static_cast<double>(state.sums.top_e);
  const double x = std::numbers::ln2 * (std::ilogb(all) + state.reference / kernel_.steps);
  const double bearable = std::min(x, state.reference_top + kRise) * temperature;
  return std::max(state.top_z, static_cast<float>(bearable));
}

/// Handles a new largest logit, `column` of this tile. The pivot is moved to about the mean drift including
/// it, so that sums about it cancel little. Returns false when moving the pivot costs the sums too much
/// accuracy.
bool MomentRow::raise_top(const TileInput& input, float top_z, std::size_t column, MomentState& state) const {
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
    add_column(sums, {static_cast<double>(sums.top_e), state.top_drift - state.pivot, 0});
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
  state.top = top, state.reference = reference, state.top_z = top_z, state.top_drift = drift;
  state.any = true;
  return true;
}

/// The pivot as the kernels use it: only the exact form uses its low part.
void MomentRow::set_pivot(MomentState& state, double pivot) {
  MomentFrame& frame = state.frame;
  frame.pivot = static_cast<float>(pivot);
  frame.pivot_low = state.exact ? static_cast<float>(pivot - static_cast<double>(frame.pivot)) : 0.0F;
  state.pivot = static_cast<double>(frame.pivot) + static_cast<double>(frame.pivot_low);
}

/// Moves the pivot to `pivot`. Returns false when logit_rms would lose too much accuracy.
bool MomentRow::repivot(MomentState& state, double pivot, double rise) const {
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
double MomentRow::off_centre(const MomentState& state, double lenience) {
  const MomentSums& sums = state.sums;
  const double e = static_cast<double>(sums.top_e), d = state.top_drift - state.pivot;
  const double all = sums.m[0] + e;
  const double mean = (sums.m[1] + e * d) / all, square = (sums.m[2] + e * d * d) / all;
  return mean * mean > lenience * (square - mean * mean) ? mean : 0.0;
}

MomentTileScratch MomentRow::scratch_of(const Run& run, std::size_t tile) {
  float* e = run.scratch.values.data() + 2 * tile * kTileColumns;
  return {e, e + kTileColumns};
}

/// Chooses units, pivot and form by the first columns, before anything is summed. Leaves everything unchanged
/// when those columns are not ordinary finite logits.
void MomentRow::probe(Run& run, const TileInput& input) const {
  if (input.columns < kProbeColumns) return;
  const TileInput few = part_of(input, 0, kProbeColumns);
  MomentMaxima maxima;
  const float top_z = kernel_.scan(few, maxima);
  if (!(std::abs(static_cast<double>(top_z)) < kLargestLogit * input.temperature)) return;
  const std::size_t column = kernel_.first_top(few, maxima, top_z);
  MomentState trial = run.state;
  Run attempt{run.columns, run.scratch, run.top_train, run.top_inf, trial, run.variant};
  if (!raise_top(few, top_z, column, trial)) return;
  if (!attempt.variant.chosen && !choose(input, attempt)) return;
  const MomentSums nothing = trial.sums;
  if (kernel_.sum(few, trial.frame, plan_of(attempt), false, column, scratch_of(run, 0), trial.sums) !=
      MomentStatus::done) {
    return;
  }
  set_pivot(trial, trial.pivot + off_centre(trial, kOff));
  trial.sums = nothing;
  trial.sums.top_e = 0;
  trial.top_z = -std::numeric_limits<float>::infinity();
  run.state = trial;
  run.variant = attempt.variant;
}

/// Handles a block at column `begin` that has the largest logit so far, at `column`. Pivot and units of the
/// tile stay.
bool MomentRow::exchange_top(const TileInput& input, std::size_t begin, MomentState& state,
                             std::size_t& column) const {
  const TileInput block = part_of(input, begin, kMomentBlock);
  MomentMaxima maxima;
  const float top_z = kernel_.scan(block, maxima);
  MomentFrame& frame = state.frame;
  const auto z = static_cast<double>(top_z);
  const auto top = static_cast<double>(top_z * frame.inverse_temperature);
  if (!(std::abs(z) < kLargestLogit * input.temperature && top <= state.reference_top + kRise)) return false;
  const std::size_t at = kernel_.first_top(block, maxima, top_z);
  const double y = logit_at(block.inf, block.inf_dtype, static_cast<std::int64_t>(at));
  const double drift = (z - y) * static_cast<double>(frame.inverse_temperature);
  if (!(std::abs(drift) < kLargestLogit)) return false;
  add_column(state.sums, {static_cast<double>(state.sums.top_e), state.top_drift - state.pivot, 0});
  state.sums.top_e = 0;
  move(state.sums, state.form, 0, top - state.top);
  frame.top = static_cast<float>(top);
  state.top = top, state.top_z = top_z, state.top_drift = drift;
  column = begin + at;
  return true;
}

bool MomentRow::sum_at_once(Run& run, const TileInput& input, std::size_t tile) const {
  MomentState& state = run.state;
  if (!state.any || !run.variant.chosen || input.columns % kernel_.lanes != 0) return false;
  const MomentState before = state;
  const MomentTileScratch scratch = scratch_of(run, tile);
  std::size_t begin = 0, top = kNoColumn;
  for (;;) {
    state.frame.top_z = bearable_top(state, input.temperature);
    const MomentStatus status = kernel_.sum_and_scan(input, state.frame, plan_of(run), begin, top, scratch,
                                                     state.sums, run.scratch.frames[tile].maxima);
    if (status == MomentStatus::done) break;
    if (status == MomentStatus::higher && exchange_top(input, begin, state, top)) continue;
    state = before;
    return false;
  }
  if (top != kNoColumn) scratch.d[top] = static_cast<float>(state.top_drift - state.pivot);
  const double off = off_centre(state, kOff);
  // The new top shows that the pivot was bad: sums the tile again about a better one.
  const double far = tile == 0 ? far_off(run.columns.tiles()) : kFarOff;
  const bool bad = (tile == 0 || top != kNoColumn) && off != 0 && off_centre(state, far) != 0;
  if (!bad && settle(run, tile, off)) return true;
  state = before;
  return false;
}

bool MomentRow::sum_tile(Run& run, std::size_t tile) const {
  const TileInput input = run.columns.tile(tile);
  MomentState& state = run.state;
  if (!state.any) probe(run, input);
  if (sum_at_once(run, input, tile)) return true;
  MomentMaxima& maxima = run.scratch.frames[tile].maxima;
  const float top_z = kernel_.scan(input, maxima);
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const double limit = kLargestLogit * input.temperature;
  const auto wide_top = static_cast<double>(top_z);
  if (!(wide_top < limit && (wide_top > -limit || top_z == kNone))) return false;
  std::size_t column = kNoColumn;
  const bool first = !(state.sums.n > 0);
  if (top_z != kNone && (!state.any || top_z > bearable_top(state, input.temperature))) {
    column = kernel_.first_top(input, maxima, top_z);
    if (!raise_top(input, top_z, column, state)) return false;
  }
  if (state.any && !run.variant.chosen && !choose(input, run)) return false;
  return sum_columns(run, input, tile, column, first);
}

/// Sums the tile, and sums it again about a better pivot where the first was bad and the tile is much of the
/// row.
bool MomentRow::sum_columns(Run& run, const TileInput& input, std::size_t tile, std::size_t column,
                            bool first) const {
  MomentState& state = run.state;
  const MomentTileScratch scratch = scratch_of(run, tile);
  const auto sum = [&](bool masked) {
    return kernel_.sum(input, state.frame, plan_of(run), masked, column, scratch, state.sums);
  };
  const auto sum_any = [&] {
    const MomentStatus status = sum(false);
    return (status == MomentStatus::nonfinite ? sum(true) : status) == MomentStatus::done;
  };
  const MomentSums before = state.sums;
  if (!sum_any()) return false;
  if (!state.any) {
    run.scratch.frames[tile].blank = true;
    return true;
  }
  double off = off_centre(state, kOff);
  if (first && off != 0 && off_centre(state, far_off(run.columns.tiles())) != 0) {
    state.sums = before;
    set_pivot(state, state.pivot + off);
    if (!sum_any()) return false;
    off = 0;
  }
  if (column != kNoColumn) scratch.d[column] = static_cast<float>(state.top_drift - state.pivot);
  return settle(run, tile, off);
}

bool MomentRow::settle(Run& run, std::size_t tile, double off) const {
  MomentState& state = run.state;
  MomentTileFrame& frame = run.scratch.frames[tile];
  frame.pivot = state.pivot, frame.reference = state.reference, frame.blank = false;
  if (off == 0 || tile + 1 == run.columns.tiles()) return true;
  return repivot(state, state.pivot + off, 0);
}

/// The ε for which e stands for e^{x(1+ε)}, because of the rounded steps of the frame.
double MomentRow::weight_error(const MomentState& state, double temperature) const {
  const MomentFrame& frame = state.frame;
  const double low = state.exact ? static_cast<double>(frame.steps_low) : 0.0;
  const double natural = kernel_.steps * std::numbers::log2e / temperature;
  return (static_cast<double>(frame.steps) + low) / natural - 1;
}

MomentSums MomentRow::about_top(const Run& run) {
  MomentSums sums = run.state.sums;
  // Includes the rounding error of the top of the frame.
  const double top =
      run.top_train.entries[0].value * static_cast<double>(run.state.frame.inverse_temperature);
  move(sums, run.state.form, 0, top - run.state.top);
  return sums;
}

MomentColumn MomentRow::alone_of(const Run& run) {
  const MomentState& state = run.state;
  const double below = static_cast<double>(state.top_z) - run.top_train.entries[0].value;
  return {static_cast<double>(state.sums.top_e), state.top_drift - state.pivot,
          below * static_cast<double>(state.frame.inverse_temperature)};
}

MomentFigures MomentRow::figures(const Run& run, const MomentSums& sums) const {
  const double temperature = run.columns.temperature;
  const double error = core_ ? 0 : weight_error(run.state, temperature);
  return figures_of(sums, run.state.form, alone_of(run), error, stretch_of(run.state.frame, temperature));
}

/// Searches the most likely tokens in the few blocks that can contain them.
void MomentRow::offer(Run& run) const {
  run.top_train.size = run.top_inf.size = 0;
  const std::span<const MomentTileFrame> frames = run.scratch.frames;
  const std::size_t whole = run.columns.count / kTileColumns;
  const TopBounds bounds{kernel_.surely_below(frames.data(), whole, run.top_train.capacity),
                         drift_range(run.state)};
  for (std::size_t tile = 0; tile < run.columns.tiles(); ++tile)
    kernel_.offer(run.columns.tile(tile), frames[tile].maxima, bounds, run.top_train, run.top_inf);
}

/// Computes tv and the head sets, whose thresholds are chosen.
void MomentRow::distances(const Run& run, const Centre& centre, Pass2& out) const {
  double tv = 0;
  for (std::size_t tile = run.columns.tiles();
       tile-- > 0;) {  // backwards, because what was written last is still in the cache
    const MomentTileFrame& frame = run.scratch.frames[tile];
    if (frame.blank) continue;
    const double scale = std::exp2((frame.reference - run.state.reference) / kernel_.steps) * centre.share;
    const double shift = (frame.pivot - centre.pivot) + centre.offset;
    const float* e = run.scratch.values.data() + 2 * tile * kTileColumns;
    float least[kHeads];
    for (std::size_t i = 0; i < kHeads; ++i) least[i] = static_cast<float>(out.heads[i].least_p / scale);
    MomentDistances found;
    kernel_.distances(e, e + kTileColumns, run.columns.tile(tile).columns, static_cast<float>(shift),
                      static_cast<float>(centre.size), least, found);
    tv += found.tv * scale;
    for (std::size_t i = 0; i < kHeads; ++i) {
      HeadSums& head = out.heads[i];
      head.tail_p += found.tail_p[i] * scale;
      head.tail_q += (found.tail_p[i] - found.tail_gap[i]) * scale;
      head.min_d = std::min(head.min_d, (static_cast<double>(found.low[i]) + shift) * centre.stretch);
      head.max_d = std::max(head.max_d, (static_cast<double>(found.high[i]) + shift) * centre.stretch);
    }
  }
  out.tv = 0.5 * tv * centre.stretch;
}

MomentRow::Outcome MomentRow::finish(Run& run, const std::int64_t* token, driftgate_row& out) const {
  const RowColumns& columns = run.columns;
  const MomentState& state = run.state;
  const double stretch = stretch_of(state.frame, columns.temperature);
  offer(run);
  const MomentSums sums = about_top(run);
  const MomentFigures known = figures(run, sums);
  const double all = sums.m[0] + static_cast<double>(sums.top_e);
  const MomentFault fault = fault_of(known, state.bulk / all, kMostRemainder);
  if (fault != MomentFault::none)
    return fault == MomentFault::more_powers ? Outcome::more_powers : Outcome::refused;
  if (!core_ && !well_centred(sums)) return Outcome::refused;
  Pass1 row = pass1_of(known, place_of(columns, state, sums, run.top_train, run.top_inf));
  Pass2 terms{};
  choose_heads(row, terms);
  const double size = std::max(std::abs(known.low), std::abs(known.high));
  if (!core_) distances(run, {state.pivot, known.offset / stretch, 1 / all, size, stretch}, terms);
  const double share = share_beside_top(known);
  const double distance = core_ ? std::sqrt(known.second) * share : terms.tv;
  if (!state.exact && std::abs(state.pivot) * share > kRounded * distance && known.second > 0)
    return Outcome::exact;
  terms.tv = distance;
  terms.kl_train_inf = known.kl_train_inf, terms.kl_inf_train = known.kl_inf_train;
  terms.js = known.js, terms.hellinger2 = known.hellinger2, terms.chi2 = known.chi2;
  at(out, schema::Metric::nonfinite) = 0;
  SummedRow summed{row,          terms,  run.top_train,       run.top_inf,
                   known.offset, top_k_, columns.temperature, std::nullopt};
  if (token != nullptr) {
    summed.token = TargetLogits{logit_at(columns.train, columns.train_dtype, *token),
                                logit_at(columns.inf, columns.inf_dtype, *token)};
  }
  finish_row(summed, out);
  return Outcome::done;
}

/// A part must be accurate by itself; then it is accurate in every row, whose other parts only add to it.
MomentRow::Outcome MomentRow::finish_part(Run& run, driftgate_shard_partial& out) const {
  const RowColumns& columns = run.columns;
  MomentState& state = run.state;
  const double stretch = stretch_of(state.frame, columns.temperature);
  offer(run);
  const MomentSums sums = about_top(run);
  const MomentFigures known = figures(run, sums);
  const MomentColumn alone = alone_of(run);
  const double all = sums.m[0] + alone.e, top_e = alone.e * std::exp(-alone.x);
  const MomentFault fault = fault_of(known, state.bulk / all, kMostRemainderOfPart);
  if (fault != MomentFault::none)
    return fault == MomentFault::more_powers ? Outcome::more_powers : Outcome::refused;
  if (!core_ && !well_centred(sums)) return Outcome::refused;
  // tv is at least ½(Σp·d²)^{3/2}/(Σp·d⁴)^{1/2}, by Hölder's inequality.
  const double distance = 0.5 * known.second * std::sqrt(known.second / known.fourth);
  if (!state.exact && known.second > 0 &&
      std::abs(state.pivot) * share_beside_top(known) > kRounded * distance) {
    return Outcome::exact;
  }
  const Pass1 row = pass1_of(known, place_of(columns, state, sums, run.top_train, run.top_inf));
  out.sums = packed(row);
  state.lse = log_sum(row);
  driftgate_moments& moments = out.moments;
  moments.form = static_cast<std::uint32_t>(state.form) + 1;
  moments.alone_e = alone.e / top_e, moments.alone_x = alone.x;
  moments.alone_drift = alone.d * stretch;
  moments.bulk = state.bulk / top_e * stretch * stretch;
  const double error = core_ ? 0 : weight_error(state, columns.temperature);
  double power = 1 / top_e;
  for (std::size_t k = 0; k <= kPowers[state.form]; ++k, power *= stretch) {
    moments.powers[k] = (sums.m[k] - (k <= 2 ? error * sums.x[k] : 0)) * power;
    if (k <= kCross[state.form]) moments.cross[k] = sums.x[k] * power;
  }
  return Outcome::done;
}

void MomentRow::part_terms(const RowColumns& columns, MomentScratch scratch, const MomentState& state,
                           const driftgate_shard_row& merged, driftgate_shard_terms& out) const {
  const double stretch = stretch_of(state.frame, columns.temperature);
  const double all = state.sums.m[0] + static_cast<double>(state.sums.top_e);
  const double pivot = merged.sums.c / stretch, offset = merged.offset / stretch;
  const double move = (state.pivot - pivot) + offset;
  const double size = std::max(std::abs(state.sums.low + move), std::abs(state.sums.high + move));
  Pass2 terms{};
  set_heads(merged.least_p, terms);
  TopList none{nullptr, 0, 0};
  MomentState sums = state;
  distances({columns, scratch, none, none, sums},
            {pivot, offset, std::exp(state.lse - merged.lse) / all, size * stretch, stretch}, terms);
  out.tv = terms.tv;
  write_heads(terms, out);
}

}  // namespace driftgate::gpu::cpu
