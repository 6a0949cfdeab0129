#pragma once

#include <optional>
#include <string>

#include "daemon/api/call.hpp"
#include "daemon/evidence/log/query.hpp"
#include "schema/error.hpp"

namespace driftgate::api {

/// A text of the query, or nothing.
[[nodiscard]] std::optional<std::string> text_of(const Call& call, std::string_view name);
/// A whole number that the query must have.
[[nodiscard]] schema::Result<std::int64_t> required_number(const Call& call, std::string_view name);
/// The filter and page that a query asks for.
[[nodiscard]] schema::Result<evidence::EntryFilter> filter_of(const Call& call);
/// {"items": […], "next", "tree_size"} with the entries' exact bytes, and `Link: rel="next"`.
[[nodiscard]] Reply entry_page_response(const Call& call, const schema::Result<evidence::EntryPage>& page);
/// Records who read what: the operation with its parameters but for `after`. A cursor may be made up, so each
/// page is a read; those of one question count as its repetitions.
[[nodiscard]] schema::Result<void> note_read(Context& context, const Call& call, std::string what);

}  // namespace driftgate::api
