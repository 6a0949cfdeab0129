#include "daemon/app/backups.hpp"

#include <fmt/core.h>

namespace driftgate::app {

schema::Result<evidence::Backup> Backups::make(const std::string& name) {
  const std::unique_lock one(making_, std::try_to_lock);
  if (!one.owns_lock()) {
    return schema::fail(schema::ErrorCode::conflict,
                        "another backup is being made: try again when it is done");
  }
  log_.info(fmt::format("backup {} begins", name));
  auto made = evidence::make_backup(store_, heads_, folder_, name);
  log_.info(made ? fmt::format("backup {} is done, entries={}", name, made->tree_size)
                 : fmt::format("backup {} failed: {}", name, made.error().describe()));
  return made;
}

}  // namespace driftgate::app
