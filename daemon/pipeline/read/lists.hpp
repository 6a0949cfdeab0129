#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>

#include "daemon/pipeline/service.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// One resource by its name or id, or `not_found`. `find(reader, name)`, `view_of(row)`.
template <typename Find, typename ViewOf>
schema::Result<View> view_found(store::Store& store, const char* what, const std::string& name, Find find,
                                ViewOf view_of) {
  auto row = TRY(look_up(store, find, name));
  if (row) return view_of(*row);
  return schema::fail(schema::ErrorCode::not_found, fmt::format("there is no {} {}", what, name));
}

/// A page of resources: `list(reader, after, limit)`, `view_of(row)` or `view_of(reader, row)`, and the member of a row
/// that the next page begins after.
template <typename List, typename ViewOf, typename Id>
schema::Result<Page> view_page(store::Store& store, const PageRequest& request, List list, ViewOf view_of,
                               Id id) {
  if (request.limit < 1 || request.limit > kMaxPageItems) {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        fmt::format("a page has 1 to {} items", kMaxPageItems));
  }
  return store.read([&](store::Reader& reader) -> schema::Result<Page> {
    auto rows = TRY(list(reader, request.after, static_cast<std::int64_t>(request.limit) + 1));
    Page page;
    for (std::size_t i = 0; i < std::min(rows.size(), request.limit); ++i) {
      const auto& row = rows[i];
      schema::Result<View> view;
      if constexpr (std::is_invocable_v<ViewOf, decltype(row)>)
        view = view_of(row);
      else
        view = view_of(reader, row);
      if (!view) return std::unexpected(view.error());
      page.items.push_back(std::move(*view));
      if (i + 1 == request.limit && rows.size() > request.limit) page.next = std::invoke(id, row);
    }
    return page;
  });
}

}  // namespace driftgate::pipeline
