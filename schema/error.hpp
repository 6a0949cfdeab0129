#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

/// The value of an `expected`. If it holds an error, the calling function returns that error:
///
///     const auto head = TRY(read_head(store));
///
/// TRY may be a whole initialiser or a whole statement and nothing else, and never occurs in a coroutine. It
/// is a statement expression, an extension of g++ and clang. Its variable is numbered so that a lambda which
/// is an argument of a call in TRY may contain TRY as well.
#define TRY(...) DRIFTGATE_TRY_NUMBERED(__COUNTER__, __VA_ARGS__)
#define DRIFTGATE_TRY_NUMBERED(number, ...) DRIFTGATE_TRY_NAMED(number, __VA_ARGS__)
#define DRIFTGATE_TRY_NAMED(number, ...)                         \
  __extension__({                                                \
    auto tried_##number = (__VA_ARGS__);                         \
    if (!tried_##number) [[unlikely]]                            \
      return std::unexpected(std::move(tried_##number).error()); \
    *std::move(tried_##number);                                  \
  })

namespace driftgate::schema {

/// The kind of a failure. The names are stable: they are the `code` of HTTP problems (RFC 9457), and the exit
/// codes of commands follow from them (docs/architecture.md, "Errors and exit codes").
enum class ErrorCode : std::uint8_t {
  invalid_argument,   ///< the request makes no sense
  invalid_document,   ///< a contract, corpus or JSON document breaks a rule
  invalid_capture,    ///< a capture file breaks a rule of docs/design/measurement.md
  not_comparable,     ///< two captures differ in something that must agree
  not_found,          ///< what was named does not exist
  already_exists,     ///< the name or identity is taken
  conflict,           ///< the state does not allow this now
  unauthenticated,    ///< no token, or one that is not known
  forbidden,          ///< the token's scopes do not allow this
  limit_exceeded,     ///< the input is larger than its limit
  unsupported,        ///< this build or engine cannot do it
  unavailable,        ///< a full queue, or a daemon or engine that cannot be reached: try again later
  deadline_exceeded,  ///< a wait reached its limit
  io,                 ///< reading or writing failed
  storage_full,       ///< there is no space for a write
  corrupt,            ///< stored data contradicts itself
  internal,           ///< a bug: please report
};

/// The name of the code, such as "invalid_argument".
[[nodiscard]] std::string_view to_string(ErrorCode code);

/// An expected failure. `message` tells people what failed, where, and what to do about it. `where` is a JSON
/// pointer, a position in a file, or empty. `cause` is the failure that led to this one, or null.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  std::string where;
  std::shared_ptr<const Error> cause;

  /// "message (at where): message of the cause …" on one line.
  [[nodiscard]] std::string describe() const;
};

template <typename T>
using Result = std::expected<T, Error>;

/// An error without a cause, to be returned.
[[nodiscard]] inline std::unexpected<Error> fail(ErrorCode code, std::string message,
                                                 std::string where = {}) {
  return std::unexpected<Error>(Error{code, std::move(message), std::move(where), nullptr});
}

/// An error with `inner` as its cause and with the code of `inner`, to be returned.
[[nodiscard]] std::unexpected<Error> wrap(const Error& inner, std::string message);

}  // namespace driftgate::schema
