#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include "schema/error.hpp"

struct sqlite3_stmt;

namespace driftgate::store {

using schema::Error;
using schema::ErrorCode;
using schema::Result;

class Connection;

/// A statement's literal text beside the name that error messages use. Only literals compile.
struct Sql {
  const char* name;
  const char* text;
  consteval Sql(const char* statement_name, const char* statement_text)
      : name(statement_name), text(statement_text) {}
};

/// Bytes to bind as a BLOB; they are not copied and must live until the call returns.
struct Blob {
  std::string_view bytes;
};

/// A value to bind: NULL, INTEGER, TEXT (UTF-8) or BLOB. Views are not copied.
class Param {
 public:
  using Value = std::variant<std::nullptr_t, std::int64_t, std::string_view, Blob>;

  Param(std::nullptr_t) : value_(nullptr) {}
  Param(bool value) : value_(static_cast<std::int64_t>(value)) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Param(T value) : value_(static_cast<std::int64_t>(value)) {}
  Param(const char* text) : value_(std::string_view(text)) {}
  Param(std::string_view text) : value_(text) {}
  Param(const std::string& text) : value_(std::string_view(text)) {}
  Param(Blob blob) : value_(blob) {}
  template <typename T>
  Param(const std::optional<T>& maybe) : value_(maybe ? Param(*maybe).value_ : Value(nullptr)) {}

  [[nodiscard]] const Value& value() const { return value_; }

 private:
  Value value_;
};

using Params = std::initializer_list<Param>;

/// The current row of a query. Columns are read by their place in the SELECT list, from 0.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::uint64_t unsigned_integer(int column) const;  ///< the same 64 bits
  [[nodiscard]] std::string text(int column) const;  ///< TEXT or the bytes of a BLOB; "" for NULL
  /// The same without a copy: valid until the next row.
  [[nodiscard]] std::string_view bytes(int column) const;
  [[nodiscard]] std::optional<std::int64_t> maybe_integer(int column) const;

 private:
  sqlite3_stmt* statement_;
};

/// Reads inside one transaction: a stable snapshot. Given to the function passed to Store::read, and the base
/// of Tx. Never keep one beyond that function.
class Reader {
 public:
  explicit Reader(Connection& connection) : connection_(connection) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Calls `on_row(const Row&)` for each row until it returns false.
  template <typename F>
  Result<void> each(const Sql& sql, Params params, F&& on_row) {
    return query(
        sql, params,
        [](void* f, const Row& row) { return (*static_cast<std::remove_reference_t<F>*>(f))(row); },
        const_cast<void*>(static_cast<const void*>(&on_row)));
  }

  /// `make(row)` of the first row, or nothing when there is none.
  template <typename F>
  auto one(const Sql& sql, Params params, F&& make)
      -> Result<std::optional<std::invoke_result_t<F&, const Row&>>> {
    std::optional<std::invoke_result_t<F&, const Row&>> found;
    TRY(each(sql, params, [&](const Row& row) {
      found.emplace(make(row));
      return false;
    }));
    return found;
  }

  /// `make(row)` of every row.
  template <typename F>
  auto all(const Sql& sql, Params params, F&& make)
      -> Result<std::vector<std::invoke_result_t<F&, const Row&>>> {
    std::vector<std::invoke_result_t<F&, const Row&>> rows;
    TRY(each(sql, params, [&](const Row& row) {
      rows.push_back(make(row));
      return true;
    }));
    return rows;
  }

 protected:
  Connection& connection_;

 private:
  Result<void> query(const Sql& sql, Params params, bool (*on_row)(void*, const Row&), void* context);
};

/// Reads and writes inside the writer's transaction; whatever the function returns an error for is undone.
class Tx : public Reader {
 public:
  using Reader::Reader;
  /// Runs an INSERT, UPDATE or DELETE and returns the number of rows that changed. A broken UNIQUE or PRIMARY
  /// KEY is `already_exists`, a broken FOREIGN KEY `not_found`, another broken constraint `conflict`.
  Result<std::int64_t> run(const Sql& sql, Params params);

  /// What the caller keeps in memory besides the database, one object of each type. It is made on first use
  /// and dropped as soon as any write is undone, so that it never refers to rows that do not exist.
  template <typename T>
  T& beside() {
    std::shared_ptr<void>& slot = kept(typeid(T));
    if (slot == nullptr) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }

 private:
  std::shared_ptr<void>& kept(const std::type_info& type);
};

}  // namespace driftgate::store
