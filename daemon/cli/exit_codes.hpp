#pragma once

#include <string_view>

#include "schema/error.hpp"
#include "schema/verdict.hpp"

namespace driftgate::cli {

/// Exit codes of every command (docs/architecture.md, "Errors and exit codes").
inline constexpr int kExitOk = 0;            ///< pass or succeeded
inline constexpr int kExitViolated = 1;      ///< violated or rejected
inline constexpr int kExitInconclusive = 3;  ///< inconclusive or expired
inline constexpr int kExitError = 4;
inline constexpr int kExitAborted = 5;  ///< aborted or superseded
inline constexpr int kExitUsage = 64;
inline constexpr int kExitUnreachable = 69;
inline constexpr int kExitIo = 74;
inline constexpr int kExitNotPermitted = 77;

[[nodiscard]] int exit_code_of(schema::ErrorCode code);
[[nodiscard]] int exit_code_of(schema::Verdict verdict);
/// Of a command that works without a daemon: 64 for an argument that makes no sense, 74 for a file that
/// cannot be read or written.
[[nodiscard]] int offline_exit_code_of(schema::ErrorCode code);
/// Of a promotion's final state; kExitError for a state that is not final.
[[nodiscard]] int exit_code_of_state(std::string_view state);

/// Prints "driftgate: …" to standard error and returns the error's exit code.
int report(const schema::Error& error);
/// The same with offline_exit_code_of.
int report_offline(const schema::Error& error);

/// Writes out what standard output still holds. Returns `exit_code`, or kExitIo with a line on standard error
/// when some of it was lost: a full disk, a reader that is gone. The last call of a command.
[[nodiscard]] int finish_output(int exit_code);
/// Says that standard output was lost, and why. Returns kExitIo.
int lost_output(std::string_view why);

}  // namespace driftgate::cli
