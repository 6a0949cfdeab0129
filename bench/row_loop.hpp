#pragma once

#include <cstdint>
#include <vector>

/// A reference for the speed of the drift engine: KL(base‖kernel) as tools for quantised models compute it.
/// Base distributions are stored as 16-bit log-probabilities with a scale and a minimum for each row; threads
/// fetch rows one by one under a lock and add their sums under it; exponentials are scalar expf. Written from
/// that description, not from the source of any tool.
namespace driftgate::bench {

struct BaseRow {
  float scale, least;
};

struct RowLoopData {
  std::uint32_t vocabulary = 0;
  std::vector<float> logits;        ///< of the kernel that is judged
  std::vector<std::uint16_t> base;  ///< log-probabilities of the other, quantised
  std::vector<BaseRow> rows;
};

struct RowLoopSums {
  double kl = 0, kl_squares = 0;
  std::uint64_t same_top = 0, rows = 0;
};

[[nodiscard]] RowLoopData make_row_loop(std::vector<float> base_logits, std::vector<float> logits,
                                        std::uint32_t vocabulary);
[[nodiscard]] RowLoopSums run_row_loop(const RowLoopData& data, std::uint32_t threads);

}  // namespace driftgate::bench
