#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/net/request.hpp"
#include "schema/error.hpp"

namespace driftgate::api {

/// What If-Match names (RFC 9110, section 13.1.1).
struct IfMatch {
  bool any = false;                 ///< "*": whatever the resource is now
  std::vector<std::string> tags{};  ///< strong entity tags with their quotes; weak ones never match
};

/// The field's value, its lines joined; nothing without the field. `invalid_argument` for what is neither "*" nor a
/// list of entity tags.
[[nodiscard]] schema::Result<std::optional<IfMatch>> if_match_of(const net::RequestHead& head);

/// Whether the precondition holds for a resource whose strong entity tag is `etag`.
[[nodiscard]] bool holds(const IfMatch& wanted, std::string_view etag);

/// The ETag of a revision: "3" with its quotes.
[[nodiscard]] std::string etag_of(std::uint64_t revision);

}  // namespace driftgate::api
