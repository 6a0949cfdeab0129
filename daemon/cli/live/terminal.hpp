#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>

#include "daemon/base/unique_fd.hpp"
#include "daemon/cli/live/frame.hpp"

namespace driftgate::cli::live {

/// Whether standard output is a terminal that can move its cursor (TERM neither unset nor "dumb").
[[nodiscard]] bool can_draw();

/// The terminal of standard output: its size now, 80×24 where it has none, and whether colours are wanted
/// (NO_COLOR unset or empty).
[[nodiscard]] Shape terminal_shape();

/// Draws a picture in place on standard output. While it lives the cursor is hidden and the signals that end
/// or stop a program are taken by wait(); both are as before afterwards. Make it before any other thread.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void draw(const std::vector<Line>& lines);

  enum class Woke : std::uint8_t { time, event, resized, ended };
  /// Waits until `fd` is readable, the size changed, a signal asks to end, or the time is over. A stop
  /// (Ctrl-Z) gives the terminal back, and resumes with a fresh picture below, as `resized`.
  [[nodiscard]] Woke wait(int fd, std::chrono::milliseconds time);

  /// Gives the terminal back and ends the program by the signal that asked for it.
  [[noreturn]] void end_by_signal();

 private:
  void take_over();
  void give_back();
  void stop();

  Frame frame_;
  sigset_t taken_{}, before_{};
  base::UniqueFd signals_;
  int asked_ = 0;  ///< the signal that asks to end
};

}  // namespace driftgate::cli::live
