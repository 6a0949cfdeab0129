#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/store/store.hpp"
#include "schema/error.hpp"

namespace driftgate::evidence {

inline constexpr std::string_view kBackupDatabase = "driftgate.db";
inline constexpr std::string_view kBackupHead = "head.note";

/// A backup: the folder that holds it, the log's size in it, and the signed head of that size.
struct Backup {
  std::filesystem::path folder{};
  std::uint64_t tree_size = 0;
  std::string head{};
};

/// Copies the database of a running daemon and the signed head of the log in the copy into the new folder
/// `parent`/`name` (0700; both made when absent). Keys are not copied: keep them elsewhere. `already_exists`
/// when the folder is there, `storage_full`, `io`; then nothing is left of it. Blocks for as long as copying
/// takes.
[[nodiscard]] Result<Backup> make_backup(store::Store& store, HeadPublisher& heads,
                                         const std::filesystem::path& parent, const std::string& name);

struct RestoreRequest {
  std::filesystem::path backup{};    ///< folder of make_backup
  std::filesystem::path data_dir{};  ///< of the daemon, which must not run
  HeadOptions head{};                ///< as the daemon has it
  bool accept_loss = false;          ///< restore although the published head is ahead, and begin a new epoch
  std::string reason{};              ///< of the loss; kept as evidence
  std::int64_t now_us = 0;
};
struct Restored {
  std::uint64_t tree_size = 0;
  std::uint64_t epoch = 1;            ///< 1 when none was begun
  std::filesystem::path set_aside{};  ///< where the database lies that was there before; empty: none was
};

/// Puts a backup in the place of the database, after it was checked: SQLite's integrity check, every entry
/// against the tree, and that the log extends the head that was published outside. What was there before is
/// kept beside it. Nobody stays signed in to the page. `conflict` when a daemon holds the folder, `corrupt`
/// with "rollback detected" when the published head is ahead and loss is not accepted.
[[nodiscard]] Result<Restored> restore_backup(const RestoreRequest& request);

}  // namespace driftgate::evidence
