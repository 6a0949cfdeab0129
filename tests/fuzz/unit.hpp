#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace driftgate::fuzz {

/// Most CPU time that one unit may take, in the instrumented build.
inline constexpr double kMaxUnitSeconds = 0.1;

/// A unit above that is run again, so often at most: time that a virtual machine's host takes away counts as
/// the unit's, a slow parser is slow each time.
inline constexpr int kUnitTries = 5;

/// Ends the process with a report when `holds` is false: the fuzzer keeps the input.
void require(bool holds, std::string_view what);

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

/// Runs one unit; ends the process when each of its runs took more than kMaxUnitSeconds.
void run_measured(std::string_view bytes);

}  // namespace driftgate::fuzz
