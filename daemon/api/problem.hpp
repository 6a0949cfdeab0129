#pragma once

#include <string>

#include "daemon/net/response.hpp"
#include "schema/error.hpp"

namespace driftgate::api {

/// The HTTP status that each code becomes (docs/architecture.md, "Errors and exit codes").
[[nodiscard]] int status_of(schema::ErrorCode code);

/// An RFC 9457 problem: `type`, `title`, `status`, `code` (the error's stable name), `detail` (what, where,
/// what to do) and `errors`, one {detail, pointer?} for each line of the message.
[[nodiscard]] net::Response problem(const schema::Error& error);
[[nodiscard]] net::Response problem(schema::ErrorCode code, std::string message, std::string where = {});

}  // namespace driftgate::api
