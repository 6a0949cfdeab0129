#pragma once

#include <cstdint>

namespace driftgate::app {

/// SIGTERM and SIGINT of this process: the first asks it to stop, the second ends it at once (exit 130).
/// SIGUSR2 asks for another router. SIGPIPE does nothing. One object for each process.
class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  enum class Wish : std::uint8_t { stop, hand_over };
  /// Blocks until the next signal.
  [[nodiscard]] Wish wait() const;

 private:
  int read_end_ = -1;
};

}  // namespace driftgate::app
