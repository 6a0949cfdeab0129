#pragma once

#include <cstdint>
#include <optional>

#include "daemon/store/sqlite/connection.hpp"

namespace driftgate::store {

/// Sees each row that the writer's connection puts into the table of the evidence log: its number must be the
/// next one, so that INSERT OR REPLACE takes the place of nothing and no number is left out. It looks on from
/// outside the statement, which costs a tenth of what a trigger before each INSERT does.
class AppendGuard {
 public:
  /// Looks at the connection from now on; it must outlive the connection's statements.
  explicit AppendGuard(Connection& connection);
  AppendGuard(const AppendGuard&) = delete;
  AppendGuard& operator=(const AppendGuard&) = delete;

  /// Before something is written: learns which number is the next.
  Result<void> begin();
  /// After it was written: `conflict` when a row had another number. The caller undoes the write.
  [[nodiscard]] Result<void> check() const;
  /// Something was undone.
  void forget();

 private:
  static void on_row(void* guard, int operation, const char* database, const char* table, std::int64_t row);

  Connection& connection_;
  std::optional<std::int64_t> next_;
  bool broken_ = false;
};

}  // namespace driftgate::store
