#pragma once

#include <filesystem>
#include <mutex>
#include <string>

#include "daemon/app/logging.hpp"
#include "daemon/evidence/backup.hpp"

namespace driftgate::app {

/// Makes backups of the running daemon, one at a time: each keeps the WAL from being written back.
class Backups {
 public:
  /// Into folders below `folder`. What it is given outlives it.
  Backups(store::Store& store, evidence::HeadPublisher& heads, std::filesystem::path folder, const Log& log)
      : store_(store), heads_(heads), folder_(std::move(folder)), log_(log) {}

  /// Errors of evidence::make_backup; `conflict` while another is being made.
  [[nodiscard]] schema::Result<evidence::Backup> make(const std::string& name);

 private:
  store::Store& store_;
  evidence::HeadPublisher& heads_;
  const std::filesystem::path folder_;
  const Log& log_;
  std::mutex making_;
};

}  // namespace driftgate::app
