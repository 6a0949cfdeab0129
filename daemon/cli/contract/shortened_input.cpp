#include "daemon/cli/contract/shortened_input.hpp"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "daemon/cli/exit_codes.hpp"

namespace driftgate::cli {

namespace {

constexpr std::string_view kMessage =
    "driftgate drift: a capture was shortened while it was read; write captures under another name and "
    "rename them when they are complete\n";

/// Only what may be called in a signal handler.
void end(int /*signal*/) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(kExitIo);
}

}  // namespace

void explain_shortened_inputs() {
  struct sigaction action {};
  action.sa_handler = end;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace driftgate::cli
