#include "schema/error.hpp"

namespace driftgate::schema {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::invalid_document: return "invalid_document";
    case ErrorCode::invalid_capture: return "invalid_capture";
    case ErrorCode::not_comparable: return "not_comparable";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::already_exists: return "already_exists";
    case ErrorCode::conflict: return "conflict";
    case ErrorCode::unauthenticated: return "unauthenticated";
    case ErrorCode::forbidden: return "forbidden";
    case ErrorCode::limit_exceeded: return "limit_exceeded";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::deadline_exceeded: return "deadline_exceeded";
    case ErrorCode::io: return "io";
    case ErrorCode::storage_full: return "storage_full";
    case ErrorCode::corrupt: return "corrupt";
    case ErrorCode::internal: return "internal";
  }
  return "internal";
}

std::string Error::describe() const {
  std::string text = message;
  if (!where.empty()) text += " (at " + where + ")";
  if (cause) text += ": " + cause->describe();
  return text;
}

std::unexpected<Error> wrap(const Error& inner, std::string message) {
  return std::unexpected<Error>(Error{inner.code, std::move(message), {}, std::make_shared<const Error>(inner)});
}

}  // namespace driftgate::schema
