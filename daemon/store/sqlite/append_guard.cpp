#include "daemon/store/sqlite/append_guard.hpp"

#include <sqlite3.h>

#include <string_view>

#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kNext{"next entry", "SELECT coalesce(max(seq), -1) + 1 FROM entries"};

}  // namespace

AppendGuard::AppendGuard(Connection& connection) : connection_(connection) {
  const auto see = [](void* guard, int operation, const char* database, const char* table,
                      sqlite3_int64 row) { on_row(guard, operation, database, table, row); };
  sqlite3_update_hook(connection.handle(), +see, this);
}

Result<void> AppendGuard::begin() {
  if (next_) return {};
  Reader reader(connection_);
  const auto next = TRY(find_row<std::int64_t>(reader, kNext, {}));
  next_ = next.value_or(0);
  return {};
}

Result<void> AppendGuard::check() const {
  if (!broken_) return {};
  return schema::fail(ErrorCode::conflict, "the log is append-only: seq must be max + 1");
}

void AppendGuard::forget() {
  next_.reset();
  broken_ = false;
}

void AppendGuard::on_row(void* guard, int operation, const char*, const char* table, std::int64_t row) {
  if (operation != SQLITE_INSERT || std::string_view(table) != "entries") return;
  auto& self = *static_cast<AppendGuard*>(guard);
  self.broken_ = self.broken_ || self.next_ != row;
  self.next_ = row + 1;
}

}  // namespace driftgate::store
