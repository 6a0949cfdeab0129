#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "daemon/cli/setup/as_owner.hpp"
#include "daemon/cli/setup/doctor_checks.hpp"
#include "daemon/cli/setup/key_copies.hpp"
#include "daemon/cli/setup/working_folder.hpp"
#include "daemon/evidence/keys/signed_note.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/jobs/slurm/slurm_commands.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMegabyte = 1ull << 20;
constexpr std::uint64_t kLowSpace = 1'024 * kMegabyte, kNoSpace = 128 * kMegabyte;
constexpr std::int64_t kBackupAge_us = 7LL * 86'400 * 1'000'000;

bool is_present(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

void check_root(const fs::path& root, Findings& into) {
  const std::string where = "roots: " + root.string();
  struct stat status {};
  if (::stat(root.c_str(), &status) != 0)
    return into.error(where, std::strerror(errno),
                      "make the folder, or take it out of the setting 'roots' and restart the daemon");
  if (!S_ISDIR(status.st_mode))
    return into.error(where, "is no folder", "name its folder in the setting 'roots'");
  if (!may_use(root, R_OK | X_OK))
    into.error(where, fmt::format("uid {} cannot read it", ::geteuid()),
               "let the daemon's user read and enter it (chmod, or a group), or run doctor as that user");
}

void check_roots(const Deployment& deployment, Findings& into) {
  if (deployment.roots.empty())
    into.warning("roots", "no folder is configured, so that no capture, corpus or checkpoint can be read",
                 "list the folders in the setting 'roots' and restart the daemon");
  for (const auto& root : deployment.roots) check_root(root, into);
  for (const auto& [name, program] : deployment.adapters) {
    if (!may_use(program, X_OK))
      into.error("adapters: " + name, fmt::format("{}: {}", program, std::strerror(errno)),
                 "install the program or correct its path in the setting 'adapters'");
  }
  into.checked("roots and adapters");
}

/// The nearest folder above a path, or itself, that is there.
fs::path standing(fs::path path) {
  while (!is_present(path) && path.has_relative_path()) path = path.parent_path();
  return path;
}

void check_data_folder(const Deployment& deployment, Findings& into) {
  const auto& folder = deployment.data_dir;
  const std::string where = "data_dir: " + folder.string();
  into.checked("data folder");
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    const fs::path above = standing(folder);
    if (!may_use(above, W_OK | X_OK))
      into.error(where, fmt::format("is not there, and {} cannot be written", above.string()),
                 "make it for the daemon's user: install -d -m 0700 -o USER " + folder.string());
    return;
  }
  if ((status.st_mode & 077) != 0)
    into.error(where, fmt::format("others may enter it (mode {:04o})", status.st_mode & 07777u),
               "chmod 0700 " + folder.string());
  if (!may_use(folder, R_OK | W_OK | X_OK))
    into.warning(where, "the user who asks may not use it, so that what is in it was not looked at",
                 fmt::format("run doctor as the daemon's user (uid {})", status.st_uid));
}

void check_space(const Deployment& deployment, Findings& into) {
  std::set<unsigned long> seen;
  for (const auto& folder : {deployment.data_dir, deployment.spool_dir, deployment.backup_dir,
                             deployment.slurm_jobs_dir, deployment.head_file.parent_path()}) {
    struct statvfs disk {};
    const fs::path there = standing(folder);
    if (::statvfs(there.c_str(), &disk) != 0 || !seen.insert(disk.f_fsid).second) continue;
    const std::uint64_t free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
    if (free >= kLowSpace) continue;
    const std::string where = "disk of " + there.string();
    const std::string what = fmt::format("{} MB are free", free / kMegabyte);
    if (free < kNoSpace)
      into.error(where, what, "make room: without space nothing is recorded, and so nothing is promoted");
    else
      into.warning(where, what,
                   "make room, or move data_dir, router.spool_dir or evidence.backup_dir to another disk");
  }
  into.checked("disk space");
}

void check_webhook_secrets(const Deployment& deployment, Findings& into) {
  for (const auto& [name, secret] : deployment.webhooks) {
    if (!may_use(secret, R_OK))
      into.error("webhooks.endpoints: " + name, fmt::format("{}: {}", secret, std::strerror(errno)),
                 "write its secret: driftgate key generate --use webhook --out " + secret);
  }
  if (!deployment.webhooks.empty()) into.checked("webhooks' secrets");
}

void check_slurm_settings(const Deployment& deployment, Findings& into) {
  if (!deployment.uses_slurm) return;
  into.checked("Slurm");
  const jobs::SlurmCommands commands(deployment.slurm);
  for (const auto* const program : {"sbatch", "squeue", "scancel"})
    if (const auto found = commands.find(program); !found)
      return into.error("slurm.bin_dir", found.error().message,
                        "install Slurm's client programs, or set slurm.bin_dir");
  const auto& conf = deployment.slurm.conf_file;
  if (!conf.empty() && !may_use(conf, R_OK))
    into.error("slurm.conf_file: " + conf.string(), std::strerror(errno),
               "correct the setting slurm.conf_file");
  const auto& script = deployment.slurm_template;
  if (!script.empty() && !may_use(script, R_OK))
    into.error("slurm.template: " + script.string(), std::strerror(errno),
               "correct the setting slurm.template");
  const fs::path jobs_dir = standing(deployment.slurm_jobs_dir);
  if (!may_use(jobs_dir, W_OK | X_OK))
    into.error("slurm.jobs_dir: " + deployment.slurm_jobs_dir.string(), std::strerror(errno),
               "give a folder that the daemon's user may write and every node has under the same path");
  if (const auto answer = commands.ping(); !answer)
    into.error("slurm", answer.error().message, "start Slurm's controller, or correct slurm.conf_file");
}

/// That nobody but its owner may read a file that holds a secret.
void check_secret(const fs::path& file, Findings& into) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if ((status.st_mode & 077) != 0)
    into.error(file.string(),
               fmt::format("others may use this secret (mode {:04o})", status.st_mode & 07777u),
               fmt::format("chmod 0600 {}, and make it anew if others have read it", file.string()));
}

void check_folder_of_secrets(const fs::path& folder, Findings& into) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const auto extension = at->path().extension();
    if (extension == ".token" || extension == ".key") check_secret(at->path(), into);
  }
}

void check_copy(const Deployment& deployment, const KeptKey& key, Findings& into) {
  if (!is_present(key.file)) {
    if (is_present(deployment.data_dir / "driftgate.db"))
      into.error(key.file.string(), fmt::format("the {} key is not there, so that no daemon starts", key.use),
                 "restore its copy; docs/operations.md says what to do without one");
    return;
  }
  const auto copy = noted_copy(deployment, key);
  if (!copy) return into.skipped("copies of the " + key.use + " key", copy.error().message);
  if (copy->empty())
    into.warning(key.file.string(),
                 fmt::format("no copy of the {} key is noted, and backups contain no keys", key.use),
                 "driftgate key copy --to FOLDER (with --config), on a medium that is kept elsewhere");
}

}  // namespace

void check_files(const Deployment& deployment, Findings& into) {
  check_roots(deployment, into);
  check_data_folder(deployment, into);
  check_space(deployment, into);
  check_webhook_secrets(deployment, into);
  check_slurm_settings(deployment, into);
}

void check_keys(const Deployment& deployment, Findings& into) {
  if (is_present(deployment.data_dir) && !may_use(deployment.data_dir, R_OK | X_OK))
    return into.skipped("keys and tokens", "they are in the data folder");
  for (const auto& file : {deployment.head_key, deployment.attestation_key, deployment.session_key})
    if (file.parent_path() != deployment.data_dir) check_secret(file, into);
  check_folder_of_secrets(deployment.data_dir, into);
  const fs::path folder = deployment.data_dir.parent_path();
  if (is_present(folder / kSettingsName))
    check_folder_of_secrets(folder / "tokens", into);  // of a working folder
  for (const auto& file : deployment.secrets) check_secret(file, into);
  for (const auto& [name, secret] : deployment.webhooks) check_secret(secret, into);
  std::error_code error;
  for (fs::directory_iterator at(deployment.engine_files, error), end; !error && at != end;
       at.increment(error))
    if (at->path().extension() != ".pem" && at->path().extension() != ".crt") check_secret(at->path(), into);
  for (const auto& key : kept_keys(deployment)) check_copy(deployment, key, into);
  into.checked("keys and tokens");
}

void check_backups(const Deployment& deployment, std::int64_t now_us, Findings& into) {
  if (!is_present(deployment.data_dir / "driftgate.db")) return;
  std::int64_t newest_us = 0;
  std::error_code error;
  for (fs::directory_iterator at(deployment.backup_dir, error), end; !error && at != end;
       at.increment(error)) {
    struct stat status {};
    if (::stat((at->path() / "driftgate.db").c_str(), &status) == 0)
      newest_us = std::max<std::int64_t>(newest_us, static_cast<std::int64_t>(status.st_mtime) * 1'000'000);
  }
  into.checked("backups");
  const std::string where = "backups: " + deployment.backup_dir.string();
  if (newest_us == 0) return into.warning(where, "there is none", "driftgate backup, now and by a timer");
  if (now_us - newest_us > kBackupAge_us)
    into.warning(where, fmt::format("the newest is {} days old", (now_us - newest_us) / 86'400'000'000),
                 "driftgate backup, now and by a timer");
}

void check_idle_head(const Deployment& deployment, Findings& into) {
  const fs::path database = deployment.data_dir / "driftgate.db";
  struct stat status {};
  if (::stat(database.c_str(), &status) != 0) return;
  // SQLite makes files beside the database, which the daemon could not use if they were another user's.
  if (status.st_uid != ::geteuid())
    return into.skipped("published head",
                        fmt::format("run doctor as the daemon's user (uid {})", status.st_uid));
  const auto store = store::Store::open({.data_dir = deployment.data_dir, .read_only = true});
  if (!store) return into.skipped("published head", store.error().message);
  const auto size = (*store)->read([](store::Reader& reader) { return evidence::tree_size(reader); });
  const auto note = read_file(deployment.head_file.string(), evidence::kMaxNoteBytes);
  if (!size) return into.skipped("published head", size.error().message);
  into.checked("published head");
  const std::string where = "evidence.head_file: " + deployment.head_file.string();
  if (!note)
    return into.error(where, note.error().message,
                      "restore it, or the backup that it belongs to: no daemon starts");
  const auto head = evidence::read_checkpoint(*note);
  if (!head) return into.error(where, head.error().message, "restore it: no daemon starts with this one");
  if (head->checkpoint.size < *size)
    into.warning(where, fmt::format("it covers {} of {} entries", head->checkpoint.size, *size),
                 "start the daemon: it publishes the newest head");
  if (head->checkpoint.size > *size)
    into.error(where,
               fmt::format("it covers {} entries, the log has {}: the database was set back",
                           head->checkpoint.size, *size),
               "restore the newest backup; docs/operations.md tells of a loss");
}

}  // namespace driftgate::cli
