#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/cpu/tile_kernel.hpp"
#include "gpu/fused/block_product.hpp"

namespace driftgate::gpu::fused {

/// KL(p‖q) and KL(q‖p) of a row, in nats, from pass 1 alone, and whether their estimated errors are below the
/// permitted error (docs/design/measurement.md, "One pass only").
struct OnePassKl {
  double train_inf, inf_train;
  bool accurate;
};
[[nodiscard]] OnePassKl one_pass_kl(const cpu::Pass1& sums);

/// Evaluates rows of hidden states with one thread, block by block. The figures of a row depend only on the
/// row and the heads.
class FusedRows {
 public:
  /// `metrics`: with DRIFTGATE_METRICS_ALL the products of every row are formed twice, for pass 2 (tv, js,
  /// hellinger2, chi2 and the head-tail bound); with DRIFTGATE_METRICS_CORE only those of rows whose one-pass
  /// divergences are not accurate enough.
  FusedRows(const ProductKernel& kernel, const HeadPair& heads, std::uint32_t top_k, std::uint32_t metrics,
            std::size_t most_rows);

  /// `tokens` may be null. Precondition: out.size() == rows.size().
  void measure(std::span<const HiddenRow> rows, const std::int64_t* tokens, std::span<driftgate_row> out);
  [[nodiscard]] std::size_t scratch_bytes() const;

 private:
  struct Row {
    cpu::Pass1 sums;
    cpu::Pass2 terms;
    cpu::TopList top_train, top_inf;
    bool any;
    std::uint64_t nonfinite;
    double offset, lse;
    std::optional<OnePassKl> kl;  ///< present where it is accurate
    TileTop floor;                ///< logits above it are formed in float64 in pass 2
  };
  void start(std::span<const HiddenRow> rows);
  void first_pass(std::size_t row, std::size_t first, std::size_t count);
  void second_pass(std::size_t row, std::size_t packed, std::size_t first, std::size_t count);
  void take_second_product(std::span<const HiddenRow> rows);
  /// The floor of a row: logits above it may have much of the mass or be among the most likely tokens, so
  /// they are formed in float64.
  [[nodiscard]] TileTop floor_of(const Row& row, const double* z, const double* drift, std::size_t count,
                                 const TileTop& top);
  void refine(std::size_t packed, std::size_t first, std::size_t count, const TileTop& floor);
  std::uint64_t form(std::size_t packed, std::size_t first, std::size_t count, TileTop& top);
  struct TargetLogit {
    double z, drift;
  };
  [[nodiscard]] std::optional<TargetLogit> target_logit(std::size_t row, std::int64_t token);
  void finish(const Row& row, const std::optional<TargetLogit>& token, bool has_token,
              driftgate_row& out) const;
  [[nodiscard]] double largest_but(const double* values, std::size_t count, std::size_t k);

  const ProductKernel& kernel_;
  const HeadPair& heads_;
  std::uint32_t top_k_, capacity_;
  bool all_metrics_;
  std::size_t most_rows_;
  BlockProduct product_;
  std::vector<Row> rows_;
  std::vector<cpu::TopEntry> entries_;
  std::vector<double> e_, sorted_, exact_z_, exact_drift_, exact_bias_, exact_bias_drift_;
  std::vector<std::uint32_t> chosen_;
  std::vector<double> no_bias_;
  std::vector<HiddenRow> again_;
  std::vector<std::size_t> again_at_;
  std::vector<std::optional<TargetLogit>> tokens_;
};

}  // namespace driftgate::gpu::fused
