#include "daemon/app/stop_signal.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>

namespace driftgate::app {
namespace {

constexpr int kForcedExit = 130;
constexpr char kStop = 's';
constexpr char kHandOver = 'h';

// A signal handler reaches nothing but globals.
volatile sig_atomic_t stop_requested = 0;
int write_end = -1;

void tell(char byte) {
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = ::write(write_end, &byte, 1);
  errno = saved;
}

extern "C" void on_stop(int) {
  if (stop_requested != 0) _exit(kForcedExit);
  stop_requested = 1;
  tell(kStop);
}

extern "C" void on_hand_over(int) {
  tell(kHandOver);
}

extern "C" void on_pipe(int) {}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("cannot make the pipe for signals");
  read_end_ = ends[0];
  write_end = ends[1];
  handle(SIGTERM, on_stop);
  handle(SIGINT, on_stop);
  handle(SIGUSR2, on_hand_over);
  // A handler, unlike SIG_IGN, is not inherited by the programs that the daemon starts.
  handle(SIGPIPE, on_pipe);
}

StopSignal::Wish StopSignal::wait() const {
  char byte = kStop;
  while (::read(read_end_, &byte, 1) < 0 && errno == EINTR) {
  }
  return byte == kHandOver ? Wish::hand_over : Wish::stop;
}

}  // namespace driftgate::app
