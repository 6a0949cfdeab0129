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
    case ErrorCode::invalid_argument:
    case ErrorCode::invalid_document:
    case ErrorCode::invalid_capture:
    case ErrorCode::not_comparable:
    case ErrorCode::not_found:
    case ErrorCode::already_exists:
    case ErrorCode::conflict:
    case ErrorCode::limit_exceeded:
    case ErrorCode::unsupported:
    case ErrorCode::deadline_exceeded:
    case ErrorCode::corrupt:
    case ErrorCode::internal:
      return kExitError;
  }
  return kExitError;
}

int exit_code_of_state(std::string_view state) {
  if (state == "succeeded") return kExitOk;
  if (state == "rejected") return kExitViolated;
  if (state == "inconclusive" || state == "expired") return kExitInconclusive;
  if (state == "aborted" || state == "superseded") return kExitAborted;
  return kExitError;
}

int report(const schema::Error& error) {
  // Faults stand on lines of their own; what else steers a terminal may come from outside.
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

int finish_output(int exit_code) {
  if (std::ferror(stdout) != 0) return lost_output("a part of it was not taken");
  return std::fflush(stdout) == 0 ? exit_code : lost_output(std::strerror(errno));
}

int lost_output(std::string_view why) {
  fmt::print(stderr, "driftgate: can not write to standard output: {}\n", why);
  return kExitIo;
}

}  // namespace driftgate::cli
