#include "daemon/library/guard.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "schema/utf8.hpp"

namespace driftgate::library {

using schema::ErrorCode;
using schema::Result;

namespace {

thread_local std::string last_message;

struct Name {
  dg_status status;
  const char* name;
};

}  // namespace

dg_status status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return DG_INVALID_ARGUMENT;
    case ErrorCode::invalid_document:
      return DG_INVALID_DOCUMENT;
    case ErrorCode::invalid_capture:
      return DG_INVALID_CAPTURE;
    case ErrorCode::not_comparable:
      return DG_NOT_COMPARABLE;
    case ErrorCode::not_found:
      return DG_NOT_FOUND;
    case ErrorCode::already_exists:
      return DG_ALREADY_EXISTS;
    case ErrorCode::conflict:
      return DG_CONFLICT;
    case ErrorCode::unauthenticated:
      return DG_UNAUTHENTICATED;
    case ErrorCode::forbidden:
      return DG_FORBIDDEN;
    case ErrorCode::limit_exceeded:
      return DG_LIMIT_EXCEEDED;
    case ErrorCode::unsupported:
      return DG_UNSUPPORTED;
    case ErrorCode::unavailable:
      return DG_UNAVAILABLE;
    case ErrorCode::deadline_exceeded:
      return DG_DEADLINE_EXCEEDED;
    case ErrorCode::io:
      return DG_IO;
    case ErrorCode::storage_full:
      return DG_STORAGE_FULL;
    case ErrorCode::corrupt:
      return DG_CORRUPT;
    case ErrorCode::internal:
      break;
  }
  return DG_INTERNAL;
}

dg_status failed(dg_error* error, dg_status status, std::string_view message) noexcept {
  try {
    last_message = message;
  } catch (...) {
    last_message.clear();
  }
  if (error == nullptr || error->struct_size < sizeof(dg_error)) return status;
  error->code = status;
  error->message_bytes = message.size();
  std::size_t end = std::min<std::size_t>(message.size(), DG_MESSAGE_BYTES - 1);
  if (end < message.size()) {
    while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0U) == 0x80U) --end;
  }
  std::memcpy(error->message, message.data(), end);
  error->message[end] = '\0';
  return status;
}

Result<std::string> text_of(dg_text text, std::string_view what, std::size_t limit) {
  if (text.size == 0) return std::string();
  TRY(needed(text.data, what));
  if (text.size > limit) {
    return schema::fail(ErrorCode::limit_exceeded,
                        fmt::format("{} has {} bytes; at most {} are allowed", what, text.size, limit));
  }
  std::string out(text.data, text.size);
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t length = out[at] == '\0' ? 0 : schema::utf8_length(out, at);
    if (length == 0) {
      return schema::fail(ErrorCode::invalid_argument,
                          fmt::format("{} is not UTF-8 or has a NUL at byte {}", what, at));
    }
    at += length;
  }
  return out;
}

Result<std::string> path_of(dg_text path, std::string_view what) {
  if (path.size == 0) return schema::fail(ErrorCode::invalid_argument, fmt::format("{} is empty", what));
  TRY(needed(path.data, what));
  if (path.size > kMaxPathBytes)
    return schema::fail(ErrorCode::limit_exceeded,
                        fmt::format("{} is longer than {} bytes", what, kMaxPathBytes));
  std::string out(path.data, path.size);
  if (out.contains('\0')) return schema::fail(ErrorCode::invalid_argument, fmt::format("{} has a NUL", what));
  return out;
}

Result<void> check_struct(const void* given, std::size_t known, std::string_view what) {
  TRY(needed(given, what));
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  if (size < 2 * sizeof(std::uint32_t) || size > kMaxStructBytes) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("struct_size of {} is {}: set it to sizeof of the struct", what, size));
  }
  const auto* bytes = static_cast<const unsigned char*>(given);
  if (size > known &&
      std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; })) {
    return schema::fail(ErrorCode::unsupported,
                        fmt::format("{} uses members that this library does not know: it is version {}", what,
                                    DG_ABI_VERSION));
  }
  return {};
}

Result<void> needed(const void* argument, std::string_view what) {
  if (argument != nullptr) return {};
  return schema::fail(ErrorCode::invalid_argument, fmt::format("{} is NULL", what));
}

}  // namespace driftgate::library

extern "C" {

dg_text dg_last_error(void) {
  return driftgate::library::text_view(driftgate::library::last_message);
}

const char* dg_status_name(dg_status status) {
  static constexpr driftgate::library::Name kNames[] = {
      {DG_OK, "ok"},
      {DG_INVALID_ARGUMENT, "invalid_argument"},
      {DG_INVALID_DOCUMENT, "invalid_document"},
      {DG_INVALID_CAPTURE, "invalid_capture"},
      {DG_NOT_COMPARABLE, "not_comparable"},
      {DG_NOT_FOUND, "not_found"},
      {DG_ALREADY_EXISTS, "already_exists"},
      {DG_CONFLICT, "conflict"},
      {DG_UNAUTHENTICATED, "unauthenticated"},
      {DG_FORBIDDEN, "forbidden"},
      {DG_LIMIT_EXCEEDED, "limit_exceeded"},
      {DG_UNSUPPORTED, "unsupported"},
      {DG_UNAVAILABLE, "unavailable"},
      {DG_DEADLINE_EXCEEDED, "deadline_exceeded"},
      {DG_IO, "io"},
      {DG_STORAGE_FULL, "storage_full"},
      {DG_CORRUPT, "corrupt"},
      {DG_INTERNAL, "internal"},
      {DG_CANCELLED, "cancelled"},
      {DG_NO_MEMORY, "no_memory"},
  };
  for (const auto& [known, name] : kNames) {
    if (known == status) return name;
  }
  return "unknown";
}

const char* dg_version(void) {
  return DRIFTGATE_VERSION;
}

uint32_t dg_abi_version(void) {
  return DG_ABI_VERSION;
}

}  // extern "C"
