#include "daemon/cli/exit_codes.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "daemon/cli/output.hpp"

namespace driftgate::cli {

int exit_code_of(schema::ErrorCode code) {
  using schema::ErrorCode;
  switch (code) {
    case ErrorCode::unauthenticated:
    case ErrorCode::forbidden:
      return kExitNotPermitted;
    case ErrorCode::unavailable:
      return kExitUnreachable;
    case ErrorCode::io:
    case ErrorCode::storage_full:
      return kExitIo;
    default:
      return kExitError;
  }
}

int exit_code_of(schema::Verdict verdict) {
  switch (verdict) {
    case schema::Verdict::pass:
      return kExitOk;
    case schema::Verdict::violated:
      return kExitViolated;
    case schema::Verdict::inconclusive:
      return kExitInconclusive;
    case schema::Verdict::error:
      break;
  }
  return kExitError;
}

int offline_exit_code_of(schema::ErrorCode code) {
  using schema::ErrorCode;
  switch (code) {
    case ErrorCode::invalid_argument:
      return kExitUsage;
    case ErrorCode::not_found:
    case ErrorCode::io:
    case ErrorCode::storage_full:
      return kExitIo;
    default:
      return kExitError;
  }
}

int exit_code_of_state(std::string_view state) {
  if (state == "succeeded") return kExitOk;
  if (state == "rejected") return kExitViolated;
  if (state == "inconclusive" || state == "expired") return kExitInconclusive;
  if (state == "aborted" || state == "superseded") return kExitAborted;
  return kExitError;
}

int report(const schema::Error& error) {
  // Each fault is on a line of its own; other control characters may come from outside and could steer a
  // terminal.
  const std::string text = error.describe();
  std::string shown;
  for (std::string_view rest = text;;) {
    const auto end = rest.find('\n');
    shown += printable(rest.substr(0, end));
    if (end == rest.npos) break;
    shown += '\n';
    rest.remove_prefix(end + 1);
  }
  fmt::print(stderr, "driftgate: {}\n", shown);
  return exit_code_of(error.code);
}

int report_offline(const schema::Error& error) {
  report(error);
  return offline_exit_code_of(error.code);
}

int finish_output(int exit_code) {
  if (std::ferror(stdout) != 0) return lost_output("some of it was not written");
  return std::fflush(stdout) == 0 ? exit_code : lost_output(std::strerror(errno));
}

int lost_output(std::string_view why) {
  fmt::print(stderr, "driftgate: cannot write to standard output: {}\n", why);
  return kExitIo;
}

}  // namespace driftgate::cli
