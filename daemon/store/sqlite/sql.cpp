#include "daemon/store/sqlite/sql.hpp"

#include <sqlite3.h>

#include "daemon/store/sqlite/connection.hpp"

namespace driftgate::store {

bool Row::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::int64_t Row::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::uint64_t Row::unsigned_integer(int column) const {
  return static_cast<std::uint64_t>(integer(column));
}

std::string_view Row::bytes(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? std::string_view() : std::string_view(bytes, static_cast<std::size_t>(size));
}

std::string Row::text(int column) const {
  return std::string(bytes(column));
}

std::optional<std::int64_t> Row::maybe_integer(int column) const {
  if (is_null(column)) return std::nullopt;
  return integer(column);
}

Result<void> Reader::query(const Sql& sql, Params params, bool (*on_row)(void*, const Row&), void* context) {
  return connection_.query(sql, params, on_row, context);
}

std::shared_ptr<void>& Tx::kept(const std::type_info& type) {
  return connection_.beside(type);
}

Result<std::int64_t> Tx::run(const Sql& sql, Params params) {
  TRY(connection_.query(sql, params, nullptr, nullptr));
  return connection_.changes();
}

}  // namespace driftgate::store
