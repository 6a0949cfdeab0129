#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "gpu/capture/capture.hpp"
#include "gpu/table/measurement.hpp"

namespace driftgate::gpu {

/// Name of the finding on rows of full logits that are finite and yet not what a model computes
/// (docs/design/measurement.md, "Checks of captures"). Decides.
inline constexpr const char* kUnphysicalLogits = "unphysical_logits";

/// The largest logit of one row where the row is unphysical; nothing where it is not. `row`: `vocabulary`
/// logits of type F32, F16 or BF16, of any alignment. NaN and infinities are left out. Ordinary rows are read
/// up to their first tokens that are not masked.
[[nodiscard]] std::optional<double> unphysical(const std::byte* row, DType dtype, std::uint32_t vocabulary);

/// Looks for unphysical logits in the rows that are measured, while they are in the cache.
class LogitCheck {
 public:
  /// Looks at one row of two comparable captures. Only full logits in the memory of this machine are looked
  /// at.
  void look(const Capture& train, const Capture& inf, std::uint64_t row);
  /// Adds a finding for each kernel that has such rows. The table has the rows that were looked at.
  void finish(MeasurementTable& table) const;

 private:
  struct Side {
    std::uint64_t rows = 0;
    std::string first;  ///< where the first one is, and its largest logit
  };
  std::array<Side, 2> sides_;  ///< train, inf
};

/// Adds the findings on unphysical logits of the rows that follow those of `into`. Both tables have their
/// rows still, and `merged_rows` is the number of both together.
void merge_unphysical(MeasurementTable& into, const MeasurementTable& next, std::uint64_t merged_rows);

/// Whether the findings of a table are ones that LogitCheck can have made of its rows.
[[nodiscard]] bool only_unphysical(const MeasurementTable& table);

}  // namespace driftgate::gpu
