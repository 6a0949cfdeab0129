#pragma once

#include <optional>
#include <string>

#include "daemon/api/call.hpp"
#include "daemon/evidence/log/query.hpp"
#include "schema/error.hpp"

namespace driftgate::api {

/// A text of the query, or nothing.
[[nodiscard]] std::optional<std::string> text_of(const Call& call, std::string_view name);
/// Puts a whole number of the query into `into`, when there is one.
[[nodiscard]] schema::Result<void> read_number(const Call& call, std::string_view name,
                                               std::optional<std::int64_t>& into);
/// A whole number that must be there.
[[nodiscard]] schema::Result<std::uint64_t> required_number(std::string_view text, std::string_view name);
/// The filter and page that a query asks for.
[[nodiscard]] schema::Result<evidence::EntryFilter> filter_of(const Call& call);
/// {"items": […], "next", "tree_size"} with the entries' exact bytes, and `Link: rel="next"`.
[[nodiscard]] net::Response entry_page_response(const Call& call, const evidence::EntryPage& page);
/// Records who read what: the operation with its parameters.
[[nodiscard]] schema::Result<void> note_read(Context& context, const Call& call, std::string what);

}  // namespace driftgate::api
