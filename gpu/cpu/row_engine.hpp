#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/backend/backend_input.hpp"
#include "gpu/cpu/moment_row.hpp"
#include "gpu/cpu/tile_kernel.hpp"
#include "gpu/cpu/widened_columns.hpp"

namespace driftgate::gpu::cpu {

using gpu::kMaxVocabulary;  ///< limits the scratch of a row: up to 40 bytes for each column and thread

/// φ(x) = e^x − 1 − x, without cancellation.
[[nodiscard]] double phi(double x);

/// Adds the sums over the columns of `other`, which follow those of `into`: rescales both to the larger
/// maximum and moves the pivot of the one with the smaller maximum (docs/design/measurement.md, "Merging
/// partial sums").
void merge(Pass1& into, const Pass1& other);

/// The offset o in log p − log q = ((z − y) − c) + o, that is log E_p[e^{−d'}] (docs/design/measurement.md,
/// "Pass 1: sums about a pivot"). Never computed as a difference of two log-sum-exps, as long as the
/// alternative fits into a double.
[[nodiscard]] double offset_of(const Pass1& sums);

/// Evaluates rows of one vocabulary size with one thread and owns the scratch of a row. See
/// gpu/cpu/README.md, "The decision, in order" and "Checks and fallbacks".
class RowEngine {
 public:
  RowEngine(const TileKernel& kernel, std::uint32_t vocabulary, std::uint32_t top_k,
            std::uint32_t metrics = DRIFTGATE_METRICS_ALL);
  RowEngine(const RowEngine&) = delete;
  RowEngine& operator=(const RowEngine&) = delete;
  /// Measures row `index` of the batch. The figures depend on nothing but that row.
  void measure(const driftgate_batch& batch, std::uint64_t index, driftgate_row& out);

 private:
  struct Located {
    Pass1 sums{};
    std::uint64_t nonfinite = 0;
    bool any = false;
  };
  void evaluate_accurately(const RowColumns& row, const std::int64_t* token, driftgate_row& out);
  /// Measures by the tile kernels. Returns false when float32 was used but the row needs float64.
  bool evaluate(const RowColumns& row, const std::int64_t* token, driftgate_row& out);
  /// Pass 2, which also corrects the offset. Returns false when the row needs float64.
  bool finish_narrow(const Pass1& sums, double lse, double& offset, Pass2& terms);
  void set_coarse(bool coarse);
  /// Gives the tiles the scratch of the float32 kernels, or takes it away so that they use float64.
  void set_narrow(bool narrow);
  Located first_pass(const RowColumns& row);
  Pass2 second_pass(const Pass1& sums, double offset, double lse) const;

  const TileKernel& kernel_;
  std::uint32_t top_k_, metrics_;
  WidenedColumns widened_;
  std::vector<double> scratch_;
  std::vector<float> narrow_scratch_;
  std::vector<Tile> tiles_;
  std::vector<TopEntry> train_entries_, inf_entries_;
  TopList top_train_{}, top_inf_{};
  std::optional<MomentRow> moments_;  ///< uses narrow_scratch_
  std::vector<MomentTileFrame> frames_;
};

}  // namespace driftgate::gpu::cpu
