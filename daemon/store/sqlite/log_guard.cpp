#include "daemon/store/sqlite/log_guard.hpp"

#include <sqlite3.h>

#include <string_view>

#include "daemon/store/sqlite/connection.hpp"

namespace driftgate::store {

namespace {

bool is_log_table(const char* name) {
  if (name == nullptr) return false;
  const std::string_view table(name);
  return table == "entries" || table == "tree_nodes" || table == "index_nodes" || table == "index_places";
}

bool is_log_head(const char* name) {
  return name != nullptr && std::string_view(name) == "log_head";
}

int authorize(void*, int action, const char* first, const char* second, const char*, const char*) {
  switch (action) {
    case SQLITE_UPDATE:
      return is_log_table(first) ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_DELETE:
      return is_log_table(first) || is_log_head(first) ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA:
      return second == nullptr ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_INSERT:
    case SQLITE_READ:
    case SQLITE_SELECT:
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
    case SQLITE_FUNCTION:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    default:
      return SQLITE_DENY;
  }
}

}  // namespace

void install_log_guard(Connection& connection) {
  sqlite3_set_authorizer(connection.handle(), authorize, nullptr);
}

}  // namespace driftgate::store
