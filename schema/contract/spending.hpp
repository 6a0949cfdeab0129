#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {

/// The level that the k-th run of a stage spends of `alpha`, k ≥ 1 (docs/design/statistics.md, "Spending"):
/// 6α/(π²k²) on fixed data, α·2^{−k} in the canary. The only place where it is computed.
[[nodiscard]] double spent_alpha(Stage stage, double alpha, std::uint32_t k);

/// Which run of one (checkpoint, kernel, contract) each stage's is: k. The first one, unless stated.
class Runs {
 public:
  /// The k-th in every stage.
  explicit Runs(std::uint32_t k = 1) { runs_.fill(k); }
  [[nodiscard]] std::uint32_t of(Stage stage) const { return runs_.at(static_cast<std::size_t>(stage)); }
  void set(Stage stage, std::uint32_t k) { runs_.at(static_cast<std::size_t>(stage)) = k; }

 private:
  std::array<std::uint32_t, kStageCount> runs_{};
};

}  // namespace driftgate::schema
