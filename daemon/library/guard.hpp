#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "daemon/library/driftgate.h"
#include "schema/error.hpp"

/// What every call of driftgate.h does: inputs are checked, and every failure becomes a status with a
/// message.
namespace driftgate::library {

inline constexpr std::size_t kMaxPathBytes = 4'096;
inline constexpr std::size_t kMaxIdentityBytes = 4'096;  ///< of each text of an identity
inline constexpr std::size_t kMaxStructBytes = 65'536;

/// Thrown by a progress callback of the caller that asked to stop; caught by `guarded`.
struct Cancelled {};

[[nodiscard]] dg_status status_of(schema::ErrorCode code) noexcept;
/// Keeps the message for dg_last_error and writes it to `error`, which may be null. Returns `status`.
dg_status failed(dg_error* error, dg_status status, std::string_view message) noexcept;

/// Calls `body`, which returns Result<void>, and turns errors and exceptions into a status.
template <typename Body>
dg_status guarded(dg_error* error, const Body& body) noexcept {
  try {
    const schema::Result<void> done = body();
    if (done) return DG_OK;
    return failed(error, status_of(done.error().code), done.error().describe());
  } catch (const Cancelled&) {
    return failed(error, DG_CANCELLED, "the progress callback asked to stop");
  } catch (const std::bad_alloc&) {
    return failed(error, DG_NO_MEMORY, "there is not enough memory");
  } catch (const std::length_error&) {
    return failed(error, DG_NO_MEMORY, "there is not enough memory: the rows are too many to be held");
  } catch (const std::exception& thrown) {
    return failed(error, DG_INTERNAL, thrown.what());
  } catch (...) {
    return failed(error, DG_INTERNAL, "an exception of an unknown type");
  }
}

/// The text of a caller. Errors: invalid_argument for a null pointer with a size, for text that is not UTF-8
/// and for NUL; limit_exceeded.
[[nodiscard]] schema::Result<std::string> text_of(dg_text text, std::string_view what, std::size_t limit);
/// A path, which must be given. Its bytes need not be UTF-8.
[[nodiscard]] schema::Result<std::string> path_of(dg_text path, std::string_view what);
[[nodiscard]] inline dg_text text_view(const std::string& text) {
  return {text.c_str(), text.size()};
}

/// Checks the size of a struct, and that what this library does not know of it is zero.
[[nodiscard]] schema::Result<void> check_struct(const void* given, std::size_t known, std::string_view what);
/// A copy of a struct of the caller; members beyond its size are zero.
template <typename Struct>
schema::Result<Struct> read_struct(const Struct* given, std::string_view what) {
  TRY(check_struct(given, sizeof(Struct), what));
  Struct out{};
  std::memcpy(&out, given, given->struct_size < sizeof(Struct) ? given->struct_size : sizeof(Struct));
  return out;
}
/// The same where null means a struct of zeros.
template <typename Struct>
schema::Result<Struct> read_optional(const Struct* given, std::string_view what) {
  if (given == nullptr) return Struct{};
  return read_struct(given, what);
}

/// Errors: invalid_argument where an argument that is needed is null.
[[nodiscard]] schema::Result<void> needed(const void* argument, std::string_view what);

}  // namespace driftgate::library
