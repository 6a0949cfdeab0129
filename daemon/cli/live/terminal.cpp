#include "daemon/cli/live/terminal.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "daemon/cli/output.hpp"

namespace driftgate::cli::live {
namespace {

/// The cursor is shown and lines wrap. A key that sends a signal makes the kernel discard what the terminal
/// has not read yet (termios(3), NOFLSH), so a drawing may have lost the end that turns wrapping on again.
constexpr std::string_view kAsBefore = "\x1b[?7h\x1b[?25h";

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// What who started the program asked to ignore, as nohup does, stays ignored.
bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

bool can_draw() {
  const std::string_view term = variable("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && !term.empty() && term != "dumb";
}

Shape terminal_shape() {
  Shape shape;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col > 0) shape.columns = size.ws_col;
    if (size.ws_row > 0) shape.rows = size.ws_row;
  }
  shape.colour = variable("NO_COLOR").empty() && can_draw();
  return shape;
}

Terminal::Terminal() {
  ::sigemptyset(&taken_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH})
    if (!is_ignored(signal) || signal == SIGWINCH) ::sigaddset(&taken_, signal);
  take_over();
  signals_ = base::UniqueFd(::signalfd(-1, &taken_, SFD_CLOEXEC | SFD_NONBLOCK));
}

Terminal::~Terminal() {
  give_back();
}

void Terminal::take_over() {
  ::pthread_sigmask(SIG_BLOCK, &taken_, &before_);
  print("\x1b[?25l");
}

void Terminal::give_back() {
  print(kAsBefore);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Terminal::draw(const std::vector<Line>& lines) {
  print(frame_.draw(lines, terminal_shape()));
}

void Terminal::stop() {
  print(kAsBefore);
  ::raise(SIGSTOP);
  frame_.forget();  // the shell has written below
  print("\x1b[?25l");
}

Terminal::Woke Terminal::wait(int fd, std::chrono::milliseconds time) {
  std::array<pollfd, 2> polled{pollfd{.fd = fd, .events = POLLIN, .revents = 0},
                               pollfd{.fd = signals_.get(), .events = POLLIN, .revents = 0}};
  if (::poll(polled.data(), polled.size(), static_cast<int>(time.count())) <= 0) return Woke::time;
  Woke woke = Woke::time;
  if ((polled[0].revents & POLLIN) != 0) woke = Woke::event;
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGTSTP) stop();
    if (signal == SIGTSTP || signal == SIGWINCH) {
      if (woke != Woke::ended) woke = Woke::resized;
    } else {
      asked_ = signal;
      woke = Woke::ended;
    }
  }
  return woke;
}

void Terminal::end_by_signal() {
  std::signal(asked_, SIG_DFL);
  give_back();  // where the signal is pending no more, raised again below
  ::raise(asked_);
  std::_Exit(128 + asked_);
}

}  // namespace driftgate::cli::live
