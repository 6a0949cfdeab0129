#pragma once

#include "gpu/cuda/records.hpp"

/// Data that the kernels for hidden states share. Logits are computed tile by tile from products of 8-bit
/// digits, summed in exact integers, and never stored (docs/design/measurement.md, "Hidden states"). The
/// steps for a batch of rows:
///
///   pack     converts hidden states to digits, as was done for the heads
///   sample   estimates from some of the tokens how the mass is distributed
///   frame    sets references and floors: a token whose logit is above the floor of its row is computed in
///   float64
///   first    computes the sums of pass 1 over all other tokens
///   exact    computes the tokens above the floor
///   merge    merges pass 1 of the row and determines its offset and head sets
///   second   computes the terms of pass 2 over all other tokens
///   finish   writes the figures
namespace driftgate::gpu::cuda {

constexpr unsigned kDigitCount = 3;  ///< digits of an element, most significant first
/// Lines of digits are padded to a multiple of this, which no tile exceeds.
constexpr std::uint32_t kLinePadding = 128;
constexpr unsigned kChunk = 64;                    ///< elements of a line that are multiplied at a time
constexpr std::uint32_t kMaxHiddenWidth = 32'768;  ///< three products of digits each: sums stay below 2^31

/// Lines of elements as digits: element = scale·(digit 0 + digit 1/2^8 + digit 2/2^16); digits beyond the
/// width of a line are 0. Rows and columns are stored in the layout of the two operands of mma.m16n8k32, so
/// that a thread reads its registers for sixteen lines at once: by chunk, digit, sixteen lines, half of the
/// chunk, lane (digit_at).
struct DigitLines {
  signed char* digits;
  float* scales;  ///< of each line, a power of two
  std::uint32_t lines, chunks;
  bool columns;  ///< the second operand
};

/// One head in device memory, for the tokens that are not masked.
struct HeadView {
  const unsigned char* weight;  ///< as stored, one row for each of `vocabulary` tokens
  const float* centre;          ///< subtracted from each row before it becomes digits
  double scale;
  std::uint64_t line_bytes;  ///< of one row
  std::uint32_t dtype;
};

/// Both heads, and how products become logits: x = scale·(W·h + bias), then the soft-cap, then the
/// temperature.
struct HeadsView {
  const std::uint32_t* tokens;  ///< row of the weight of each column
  const double* bias_train;     ///< scale·bias of each column, or null
  const double* bias_drift;     ///< bias_train minus scale·bias of K_inf
  const float* narrow_bias;     ///< bias_train in the sweep's units, padded to whole tiles, or null
  const float* narrow_drift;    ///< bias_drift minus `drift_centre`, likewise
  double drift_centre;
  double bias_error;  ///< largest error of narrow_drift
  HeadView train, inf;
  DigitLines train_digits, inf_digits, change_digits;  ///< W_train, W_inf, W_train − W_inf·scale ratio
  double cap_train, cap_inf, temperature;
  std::uint32_t width, columns;
  bool same;    ///< both heads have one weight and one scale
  bool capped;  ///< whether there is a soft-cap: products are then in units before it, else divided by the
                ///< temperature
  /// Mean over the columns of Σw² and of the squared unit of the last digit: of W_train, W_inf, the change.
  double square[3], unit2[3];
};

/// A batch of rows of hidden states.
struct HiddenBatch {
  const unsigned char* train;
  const unsigned char* inf;
  std::uint64_t train_stride_bytes, inf_stride_bytes;
  std::uint32_t train_dtype, inf_dtype;
  std::uint32_t rows, top_k;
  const std::int32_t* columns;  ///< of the target tokens; −1 masked; null: none
  bool core;                    ///< DRIFTGATE_METRICS_CORE
};

/// Properties of a row that packing has determined.
struct HiddenInfo {
  double base_z, base_drift;      ///< contribution of the centres to each logit and drift; 0 under a soft-cap
  double shared_z, shared_drift;  ///< the same, before a soft-cap
  double error_z, error_drift;    ///< standard deviation of a logit and of a drift because of omitted digits
  std::uint32_t flaws;            ///< 1: h_train is not finite, 2: h_inf
  std::uint32_t deep;             ///< 1: products of digits of the fourth order are needed
};

/// Reference values of the sweeps over a row. Logits are relative to base_z, drifts to base_drift.
struct HiddenFrame {
  float m, c;              ///< reference of the exponentials, pivot of the drift
  float floor_z, floor_y;  ///< of z and of y + c: a logit above either is computed in float64
  float offset;            ///< d = d' + offset
  float least_e[kHeads];   ///< a column is in the head set when its e^{z − m} is greater
};

/// Some columns of a row in the sample: e^{z − top_z}, and y likewise.
struct SamplePart {
  float top_z, top_y, mass_z, mass_y;
  float drift;  ///< Σe·Δ
};

/// Pass 1 over some columns: Σe, Σe·d', Σe·φ(−d'), Σf·φ(d'), Σe·(z − m), Σf·(z − m − d'), Σd', Σd'², with
/// e = e^{z − m} and f = e·e^{−d'}.
constexpr unsigned kHiddenFirst = 8;
struct HiddenFirst {
  double sums[kHiddenFirst];
  float low, high;
};

/// Pass 2 over some columns, in units of e^{z − m}: kl_train_inf, kl_inf_train, tv, js, hellinger2, chi2,
/// then for each head set Σe and Σf outside it.
constexpr unsigned kHiddenSecond = 6 + 2 * kHeads;
struct HiddenSecond {
  double sums[kHiddenSecond];
  float low[kHeads], high[kHeads];
};

/// A column in float64: its logit and drift, over the temperature.
struct HiddenColumn {
  double z, drift;
  std::uint32_t column;
};

/// A row between the passes.
struct HiddenState {
  RowSums row;
  double offset, lse;
  double kl_train_inf, kl_inf_train;  ///< of one pass
  double target_z, target_drift;
  double swept;             ///< mass of the float32 columns
  std::uint32_t exact;      ///< columns in float64
  std::uint32_t not_measured;  ///< 1: the permitted error cannot be kept
  std::uint32_t second;        ///< 1: pass 2 is needed
};

constexpr unsigned kMaxExact = 4'096;  ///< most float64 columns of a row; one that needs more is not measured
constexpr unsigned kAllExact = 2'048;       ///< smaller vocabularies have all columns in float64
constexpr double kExactShare = 1.0 / 1024;  ///< of the mass outside the top: a column with more is in float64

/// Scratch in device memory for a batch.
struct HiddenScratch {
  DigitLines train_rows, drift_rows;
  HiddenInfo* info;
  HiddenFrame* frames;
  SamplePart* sampled;   ///< rows × samples
  HiddenFirst* first;    ///< rows × splits
  HiddenSecond* second;  ///< rows × splits
  std::uint32_t* masks;  ///< rows × words: a bit for each column that is formed in float64
  HiddenColumn* exact;   ///< rows × kMaxExact
  HiddenState* states;
  std::uint32_t tiles, words;   ///< of a row
  std::uint32_t step, samples;  ///< distance of the sampled tiles; number of parts of the sample
  std::uint32_t splits;         ///< blocks that share a row's tiles
  std::uint32_t all_exact;      ///< kAllExact
};

}  // namespace driftgate::gpu::cuda
