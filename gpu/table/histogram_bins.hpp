#pragma once

#include <cstdint>
#include <vector>

#include "gpu/table/measurement.hpp"

namespace driftgate::gpu {

/// The bin of a Histogram that a value belongs to: computed once for a value that several slices count.
struct HistogramBin {
  enum class Kind : std::uint8_t { positive, negative, zero, overflow, underflow };
  Kind kind = Kind::zero;
  std::int32_t index = 0;
};

/// The bin of `value`, which is not NaN.
[[nodiscard]] HistogramBin histogram_bin(double value);
/// The value that everything in the bin is at most; of `zero` 0, although values below the smallest normal
/// number are counted there.
[[nodiscard]] double upper_edge(const HistogramBin& bin);

/// Builds a Histogram with dense counts between the smallest and the largest bin used: at most about 72,000
/// bins, the range of double.
class HistogramBuilder {
 public:
  void add(const HistogramBin& bin);
  [[nodiscard]] Histogram build() const;

 private:
  struct Dense {
    std::int32_t first = 0;
    std::vector<std::uint64_t> counts;
    void add(std::int32_t bin);
  };
  Dense positive_, negative_;
  std::uint64_t zero_ = 0, overflow_ = 0, underflow_ = 0;
};

}  // namespace driftgate::gpu
