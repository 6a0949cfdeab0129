#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "schema/error.hpp"

namespace driftgate::store {

/// The result of a statement that must change a row: `code` when it changed none.
inline schema::Result<void> must_change(const schema::Result<std::int64_t>& changed, schema::ErrorCode code,
                                        std::string message) {
  if (!changed) return std::unexpected(changed.error());
  if (*changed == 0) return schema::fail(code, std::move(message));
  return {};
}

/// Puts a message for people in front of the error of a failed statement, whose code is kept.
inline schema::Result<void> explain(const schema::Result<std::int64_t>& changed, std::string message) {
  if (!changed) return schema::wrap(changed.error(), std::move(message));
  return {};
}

/// A row that must exist, or `not_found` with `message`.
template <typename T>
schema::Result<T> must_exist(schema::Result<std::optional<T>> found, std::string message) {
  auto row = TRY(std::move(found));
  if (!row) return schema::fail(schema::ErrorCode::not_found, std::move(message));
  return std::move(*row);
}

}  // namespace driftgate::store
