#pragma once

#include "gpu/cuda/hidden_digits.hpp"

/// Converts rows of hidden states to digits and estimates how accurate their products will be.
namespace driftgate::gpu::cuda {

/// Factors that a hidden state is multiplied by before it becomes digits, so that no later product is
/// rounded.
struct HiddenFactors {
  double train, drift;
};
DRIFTGATE_HD HiddenFactors factors_of(const HeadsView& heads) {
  const double over = heads.capped ? 1.0 : heads.temperature;
  return {heads.train.scale / over, heads.inf.scale / over};
}

/// Variance of the error of one product because of omitted digits: half a unit of each element at most, and
/// products of digits of the fourth order (unless `deep`) or the fifth. `square` and `unit2`: of the hidden
/// state and of the head.
DRIFTGATE_HD double left_out(double square, double unit2, double head_square, double head_unit2,
                             std::uint32_t width, bool deep) {
  constexpr double kDigitVariance = (65'536.0 - 1) / 12;  // of a digit between −128 and 127
  constexpr double kFourth = 2 * kDigitVariance * kDigitVariance * 65'536.0;
  constexpr double kFifth = kDigitVariance * kDigitVariance;
  const double rounded = (head_square * unit2 + square * head_unit2) / 12;
  return rounded + static_cast<double>(width) * unit2 * head_unit2 * (deep ? kFifth : kFourth);
}

struct RowNorms {
  double train_square, train_unit2, drift_square, drift_unit2;
};

/// Fills in the errors of `info`; sets `deep` where fewer products would not be accurate enough.
DRIFTGATE_HD void judge_row(const HeadsView& heads, const RowNorms& norms, HiddenInfo& info) {
  constexpr double kRounded = 4e-8;                           // of a product in float32
  constexpr double kShallowZ = 2e-6, kShallowDrift = 1.5e-6;  // relative to the usual size of a drift
  const double width = static_cast<double>(heads.width);
  const unsigned inf = heads.same ? 0 : 1;
  const double over = heads.capped ? heads.temperature : 1.0;
  double usual_z = norms.train_square * heads.square[0] / width;
  double usual_drift = norms.drift_square * heads.square[inf] / width;
  if (!heads.same) usual_drift += norms.train_square * heads.square[2] / width;
  for (unsigned deep = 0; deep < 2; ++deep) {
    double z = left_out(norms.train_square, norms.train_unit2, heads.square[0], heads.unit2[0], heads.width,
                        deep != 0);
    double drift = left_out(norms.drift_square, norms.drift_unit2, heads.square[inf], heads.unit2[inf],
                            heads.width, deep != 0);
    if (!heads.same) {
      drift += left_out(norms.train_square, norms.train_unit2, heads.square[2], heads.unit2[2], heads.width,
                        deep != 0);
    }
    const double cap = std::fmax(heads.cap_train, heads.cap_inf);
    z += kRounded * kRounded * (usual_z + cap * cap);
    drift += kRounded * kRounded * usual_drift + heads.bias_error * heads.bias_error;
    info.error_z = std::sqrt(z) / over, info.error_drift = std::sqrt(drift) / over;
    info.deep = deep;
    if (info.error_z <= kShallowZ && std::sqrt(drift) <= kShallowDrift * std::sqrt(usual_drift)) break;
  }
}

/// Converts row `row` of the batch; a line at or beyond batch.rows becomes zeros. Called by the whole block.
template <class Ctx>
DRIFTGATE_HD void pack_row(Ctx& ctx, const HeadsView& heads, const HiddenBatch& batch,
                           const HiddenScratch& scratch, std::uint32_t row) {
  if (row >= batch.rows) {
    write_nothing(ctx, scratch.train_rows, row);
    write_nothing(ctx, scratch.drift_rows, row);
    return;
  }
  const unsigned char* train = batch.train + row * batch.train_stride_bytes;
  const unsigned char* inf = batch.inf + row * batch.inf_stride_bytes;
  const HiddenFactors factors = factors_of(heads);
  const double ratio = heads.inf.scale / heads.train.scale;
  const auto at_train = [&](std::uint32_t k) {
    return static_cast<double>(load_element(train, batch.train_dtype, k));
  };
  const auto at_inf = [&](std::uint32_t k) {
    return static_cast<double>(load_element(inf, batch.inf_dtype, k));
  };
  // Largest x and drift, Σx², Σdrift², the contributions of the centres to z and to the drift, and flaws.
  double found[8] = {};
  for (std::uint32_t k = ctx.thread(); k < heads.width; k += ctx.threads()) {
    const double a = at_train(k), b = at_inf(k), x = factors.train * a, drift = factors.drift * (a - b);
    const double centre = static_cast<double>(heads.train.centre[k]),
                 other = static_cast<double>(heads.inf.centre[k]);
    found[0] = std::fmax(found[0], std::fabs(x)), found[1] = std::fmax(found[1], std::fabs(drift));
    found[2] += x * x, found[3] += drift * drift;
    found[4] += x * centre;
    found[5] += drift * other + (heads.same ? 0.0 : x * (centre - ratio * other));
    found[6] += a * 0.0, found[7] += b * 0.0;
  }
  block_reduce<2>(ctx, ctx.template shared<BlockShared>(), found);
  HiddenInfo info{};
  info.flaws = (found[6] == 0 ? 0U : 1U) | (found[7] == 0 ? 0U : 2U);
  if (info.flaws != 0) {
    write_nothing(ctx, scratch.train_rows, row);
    write_nothing(ctx, scratch.drift_rows, row);
    if (ctx.thread() == 0) scratch.info[row] = info;
    return;
  }
  // Values that are too large for float32 are detected in the sums of the row.
  const double most = power_of_two(kMostExponent);
  const int exponent = line_exponent(std::fmin(found[0], most)),
            other = line_exponent(std::fmin(found[1], most));
  const bool fits = found[0] <= most && found[1] <= most;
  write_digits(
      ctx, [&](std::uint32_t k) { return fits ? factors.train * at_train(k) : 0.0; }, heads.width, exponent,
      scratch.train_rows, row);
  write_digits(
      ctx, [&](std::uint32_t k) { return fits ? factors.drift * (at_train(k) - at_inf(k)) : 0.0; },
      heads.width, other, scratch.drift_rows, row);
  if (ctx.thread() != 0) return;
  info.shared_z = found[4], info.shared_drift = found[5] + heads.drift_centre;
  info.base_z = heads.capped ? 0.0 : info.shared_z, info.base_drift = heads.capped ? 0.0 : info.shared_drift;
  const double unit = line_unit(exponent), drift_unit = found[1] > 0 ? line_unit(other) : 0.0;
  judge_row(heads, {found[2], unit * unit, found[3], drift_unit * drift_unit}, info);
  if (!fits) info.error_z = HUGE_VAL;
  scratch.info[row] = info;
}

}  // namespace driftgate::gpu::cuda
