#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/backend/backend_loader.hpp"
#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/capture/logit_check.hpp"
#include "gpu/compare_bits.hpp"
#include "gpu/drift.hpp"
#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

/// Measures captures of whole distributions (modes full and hidden) that come in batches of rows, which
/// follow each other. The table of all rows is that of one `measure_with_bits` over them, to the bit: the
/// figures of each row are kept, and no logits. Sequences may go on over several batches. One thread at a
/// time.
class BatchedDrift {
 public:
  /// `wanted`: as for measure_with_bits. Slices of `options` are those of `table`.
  BatchedDrift(MeasureOptions options, const std::vector<std::string>& wanted)
      : options_(std::move(options)), wanted_(wanted), bits_(wanted) {}

  /// Measures the next rows; adds nothing where it fails. The positions are those of `train`, as are the
  /// sequences and tokens. Errors: those of `measure`; not_comparable for a batch of another mode,
  /// vocabulary, width, dtype or head than the first, or with tokens where that has none.
  [[nodiscard]] schema::Result<void> add(const Capture& train, const Capture& inf,
                                         const Progress& progress = {});
  [[nodiscard]] std::uint64_t rows() const { return figures_.size(); }
  /// The figures of all rows; unknown where a batch held other tokens than it should.
  [[nodiscard]] const std::vector<driftgate_row>& figures() const { return figures_; }
  /// The table of all rows so far. Precondition: rows() > 0. Errors: not_comparable for a sequence that the
  /// corpus does not contain.
  [[nodiscard]] schema::Result<MeasurementTable> table(
      const Corpus* corpus, const std::optional<std::vector<SliceAttributes>>& slices,
      const Progress& progress = {}) const;

 private:
  /// What all batches have in common.
  struct Shape {
    CaptureMode mode{};
    std::uint32_t vocabulary = 0, columns = 0;
    DType train{}, inf{};
    std::shared_ptr<const fused::LmHead> train_head{}, inf_head{};
    bool tokens = false;
    bool operator==(const Shape&) const = default;
  };
  schema::Result<void> check_shape(const Capture& train, const Capture& inf);
  /// The rows of a batch, measured or unknown. Returns how many the CPU measured for a device.
  schema::Result<std::uint64_t> add_figures(const Capture& train, const Capture& inf, bool unknown,
                                            const Progress& progress);
  schema::Result<std::uint64_t> measure_rows(const Capture& train, const Capture& inf,
                                             const Progress& progress);
  void keep_columns(const Capture& train);

  MeasureOptions options_;
  std::vector<std::string> wanted_;
  BitComparison bits_;
  LogitCheck logits_;
  std::optional<OtherTokens>
      other_tokens_;  ///< of the first batch that has any; none is measured from there on
  std::optional<Shape> shape_;
  std::optional<MeasurementTable> empty_;  ///< identities, parameters and thresholds
  std::optional<Backend> backend_;         ///< of full logits; kept, since opening a device takes long
  std::vector<driftgate_row> figures_;
  std::vector<std::int64_t> sequences_, positions_, tokens_;
  std::uint64_t rows_on_cpu_ = 0;
};

}  // namespace driftgate::gpu
