#pragma once

namespace driftgate::app {

/// SIGTERM and SIGINT of this process: the first asks it to stop, the second ends it at once (exit 130).
/// SIGPIPE does nothing. One object for each process.
class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// Blocks until the first signal.
  void wait() const;

 private:
  int read_end_ = -1;
};

}  // namespace driftgate::app
