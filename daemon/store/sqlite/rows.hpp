#pragma once

#include <boost/pfr/core.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"
#include "daemon/store/states.hpp"

namespace driftgate::store {

/// Reads a T from the columns of `row` from `column` on, and advances `column` past them. A struct has its
/// members' columns in the order of their declaration; an optional is nothing for NULL.
template <typename T>
T read_value(const Row& row, int& column) {
  if constexpr (std::is_same_v<T, std::string>) {
    return row.text(column++);
  } else if constexpr (std::is_same_v<T, bool>) {
    return row.integer(column++) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(row.integer(column++));
  } else if constexpr (std::is_enum_v<T>) {
    return parse_state<T>(row.bytes(column++)).value();
  } else if constexpr (requires(T value) { value.has_value(); }) {
    if (!row.is_null(column)) return read_value<typename T::value_type>(row, column);
    ++column;
    return std::nullopt;
  } else {
    T value;
    boost::pfr::for_each_field(value, [&](auto& member) {
      member = read_value<std::remove_reference_t<decltype(member)>>(row, column);
    });
    return value;
  }
}

template <typename T>
T read_row(const Row& row) {
  int column = 0;
  return read_value<T>(row, column);
}

/// The first row as a T, or nothing when there is none.
template <typename T>
Result<std::optional<T>> find_row(Reader& reader, const Sql& sql, Params params) {
  return reader.one(sql, params, read_row<T>);
}

/// Every row as a T.
template <typename T>
Result<std::vector<T>> list_rows(Reader& reader, const Sql& sql, Params params) {
  return reader.all(sql, params, read_row<T>);
}

}  // namespace driftgate::store
