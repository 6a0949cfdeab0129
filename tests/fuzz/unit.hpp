#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace driftgate::fuzz {

/// Most CPU time that one unit may take, in the instrumented build.
inline constexpr double kMaxUnitSeconds = 0.1;

/// Ends the process with a report when `holds` is false: the fuzzer keeps the input.
void require(bool holds, std::string_view what);

/// Measures one unit and ends the process when it took more than kMaxUnitSeconds.
class UnitClock {
 public:
  UnitClock();
  ~UnitClock();
  UnitClock(const UnitClock&) = delete;
  UnitClock& operator=(const UnitClock&) = delete;

 private:
  double began_;
};

/// Takes numbers off the front of the input, so that one input says how to cut another.
class Pieces {
 public:
  explicit Pieces(std::string_view bytes) : rest_(bytes) {}
  /// The next piece: its size is the first byte, 0 means all that is left.
  std::string_view next();
  [[nodiscard]] bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

/// One unit, defined by each fuzzer.
void run(std::string_view bytes);

}  // namespace driftgate::fuzz
