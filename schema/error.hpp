#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

/// The value of an `expected`; an error is returned from the calling function instead:
///
///     const auto head = TRY(read_head(store));
///
/// It stands only as a whole initialiser or a whole statement, and never in a coroutine. It is a statement
/// expression, an extension that g++ and clang share; its variable is numbered since TRY may stand in a
/// lambda that is given to a call in TRY.
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

/// What kind of failure this is. Stable: the names are the `code` of HTTP problems (RFC 9457)
/// and the exit codes of the CLI follow from them (docs/architecture.md, "Errors and exit codes").
enum class ErrorCode : std::uint8_t {
  invalid_argument,   ///< the caller asked for something that makes no sense
  invalid_document,   ///< a contract, corpus or JSON document breaks a rule
  invalid_capture,    ///< a capture file breaks a rule of docs/design/measurement.md
  not_comparable,     ///< two captures differ in something that must agree
  not_found,          ///< no such thing
  already_exists,     ///< the name or identity is taken
  conflict,           ///< the state does not allow this now
  unauthenticated,    ///< no or an unknown token
  forbidden,          ///< the token's scopes do not allow this
  limit_exceeded,     ///< input larger than its stated limit
  unsupported,        ///< something that this build or engine cannot do, by name
  unavailable,        ///< try later: queue full, daemon or engine unreachable
  deadline_exceeded,  ///< a wait ended at its limit
  io,                 ///< reading or writing failed
  storage_full,       ///< no space for a write
  corrupt,            ///< stored data contradicts itself
  internal,           ///< a bug: please report
};

/// The code's stable name, e.g. "invalid_argument".
[[nodiscard]] std::string_view to_string(ErrorCode code);

/// An expected failure. `message` is for people and says what, where and what to do; `where` is a
/// JSON pointer, a file position or empty; `cause` is the failure beneath, if any.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  std::string where;
  std::shared_ptr<const Error> cause;

  /// "message (at where): cause's message …" on one line.
  [[nodiscard]] std::string describe() const;
};

template <typename T>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(ErrorCode code, std::string message,
                                                 std::string where = {}) {
  return std::unexpected<Error>(Error{code, std::move(message), std::move(where), nullptr});
}

/// `outer` with `inner` as its cause; the code of `inner` is kept.
[[nodiscard]] std::unexpected<Error> wrap(const Error& inner, std::string message);

}  // namespace driftgate::schema
