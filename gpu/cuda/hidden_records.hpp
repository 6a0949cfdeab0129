#pragma once

#include "gpu/cuda/records.hpp"

/// What the kernels of hidden states share: logits are formed tile by tile from products of 8-bit digits,
/// summed in exact integers, and never stored (docs/design/measurement.md, "Hidden states"). The plan of a
/// batch of rows:
///
///   pack     hidden states become digits, as the heads did before
///   sample   some of the tokens: how much mass there is, and how likely a likely token is
///   frame    references and floors: a token with a logit above its row's floor is formed in float64
///   first    all other tokens: the sums of pass 1
///   exact    the tokens above the floor
///   merge    pass 1 of the row, its offset and head sets
///   second   all other tokens again: the terms of pass 2
///   finish   the figures
namespace driftgate::gpu::cuda {

constexpr unsigned kDigitCount = 3;  ///< of an element, from the most significant
/// Lines of digits are padded to whole tiles, of which no shape has more lines.
constexpr std::uint32_t kLinePadding = 128;
constexpr unsigned kChunk = 64;                    ///< elements of a line that are multiplied at a time
constexpr std::uint32_t kMaxHiddenWidth = 32'768;  ///< three products of digits each: sums stay below 2^31

/// Lines of elements as digits: element = scale·(digit 0 + digit 1/2^8 + digit 2/2^16); those beyond a line's
/// width are 0. Rows and columns are stored as the two operands of mma.m16n8k32, so that a thread reads its
/// registers of sixteen lines at once: by chunk, digit, sixteen lines, half of the chunk, lane (digit_at).
struct DigitLines {
  signed char* digits;
  float* scales;  ///< of each line, a power of two
  std::uint32_t lines, chunks;
  bool columns;  ///< the second operand
};

/// One head in device memory, of the tokens that take part.
struct HeadView {
  const unsigned char* weight;  ///< as stored, a row for each of `vocabulary` tokens
  const float* centre;          ///< what is taken out of each row before it becomes digits
  double scale;
  std::uint64_t line_bytes;  ///< of one row
  std::uint32_t dtype;
};

/// Both heads, and what follows from a product: x = scale·(W·h + bias), then the soft-cap, then the
/// temperature.
struct HeadsView {
  const std::uint32_t* tokens;  ///< row of the weight of each column
  const double* bias_train;     ///< scale·bias of each column, or null
  const double* bias_drift;     ///< and less that of K_inf
  const float* narrow_bias;     ///< bias_train in the sweep's units, padded to whole tiles, or null
  const float* narrow_drift;    ///< bias_drift less `drift_centre`, likewise
  double drift_centre;
  double bias_error;  ///< largest error of narrow_drift
  HeadView train, inf;
  DigitLines train_digits, inf_digits, change_digits;  ///< W_train, W_inf, W_train − W_inf·scale ratio
  double cap_train, cap_inf, temperature;
  std::uint32_t width, columns;
  bool same;    ///< one weight and one scale
  bool capped;  ///< any soft-cap: then products are in units before it, else over the temperature
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

/// What is known of a row once it is packed.
struct HiddenInfo {
  double base_z, base_drift;      ///< what the centres contribute to each logit and drift; 0 under a soft-cap
  double shared_z, shared_drift;  ///< the same, before a soft-cap
  double error_z, error_drift;    ///< standard deviation of a logit and of a drift by what digits leave out
  std::uint32_t flaws;            ///< 1: h_train is not finite, 2: h_inf
  std::uint32_t deep;             ///< 1: products of the fourth order of digits count
};

/// What a row's sweeps refer to. Logits are relative to base_z, drifts to base_drift.
struct HiddenFrame {
  float m, c;              ///< reference of the exponentials, pivot of the drift
  float floor_z, floor_y;  ///< of z and of y + c: what is above either is formed in float64
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
  double swept;             ///< mass of the columns that are not in float64
  std::uint32_t exact;      ///< columns in float64
  std::uint32_t not_measured;  ///< 1: the figures cannot be had here at the accuracy that is asked for
  std::uint32_t second;     ///< 1: pass 2 is wanted
};

constexpr unsigned kMaxExact =
    4'096;  ///< columns of a row in float64; a row with more is measured not_measured
constexpr unsigned kAllExact = 2'048;  ///< a vocabulary of so many has all its columns in float64
constexpr double kExactShare = 1.0 / 1024;  ///< of the mass beside the top: a column with more is in float64

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
  std::uint32_t step, samples;  ///< every how many tiles one is in the sample; parts of it
  std::uint32_t splits;         ///< blocks that share a row's tiles
  std::uint32_t all_exact;      ///< kAllExact
};

}  // namespace driftgate::gpu::cuda
