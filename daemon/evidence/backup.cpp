#include "daemon/evidence/backup.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "daemon/base/durable_file.hpp"
#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/keys/key_files.hpp"
#include "daemon/evidence/keys/signed_note.hpp"
#include "daemon/evidence/log/epochs.hpp"
#include "daemon/evidence/log/head_check.hpp"
#include "daemon/evidence/log/head_signer.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/verify/table_checks.hpp"
#include "daemon/store/backup.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "daemon/store/sqlite/folder_lock.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

namespace fs = std::filesystem;
using schema::ErrorCode;

namespace {

constexpr const char* kActor = "console";
constexpr store::Sql kEndSessions{"end all sessions", "DELETE FROM sessions"};
/// SQLite's files of one database.
constexpr std::string_view kDatabaseFiles[] = {"driftgate.db", "driftgate.db-wal", "driftgate.db-shm"};

Result<void> make_private_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  const bool made = !error && fs::create_directory(folder, error);
  if (made) fs::permissions(folder, fs::perms::owner_all, error);
  if (made && !error) return {};
  if (!error) return schema::failf(ErrorCode::already_exists, "{} already exists", folder.string());
  return schema::failf(ErrorCode::io, "cannot create {}: {}", folder.string(), error.message());
}

/// Entries of the log in a copied database.
Result<std::uint64_t> size_of(const fs::path& folder) {
  auto connection = TRY(
      store::Connection::open((folder / kBackupDatabase).string(), store::Connection::Mode::read_only, {}));
  store::Reader reader(*connection);
  return tree_size(reader);
}

std::string read_note(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string note(kMaxNoteBytes, '\0');
  file.read(note.data(), static_cast<std::streamsize>(note.size()));
  note.resize(static_cast<std::size_t>(file.gcount()));
  return note;
}

Result<Backup> fill(store::Store& store, HeadPublisher& heads, const fs::path& folder) {
  TRY(store::copy_database(store.data_dir(), folder / kBackupDatabase));
  auto size = TRY(size_of(folder));
  auto head = TRY(heads.signed_head_at(size));
  TRY(base::write_file_durably(folder / kBackupHead, head, 0600, base::IfPresent::refuse));
  return Backup{folder, size, std::move(head)};
}

/// One restore, step by step. A failure before `place` leaves the data folder as it was.
class Restore {
 public:
  explicit Restore(const RestoreRequest& request)
      : request_(request), trial_(request.data_dir / "restore.tmp") {}

  Result<Restored> run() {
    const auto lock = TRY(store::FolderLock::take(request_.data_dir));
    std::error_code ignored;
    fs::remove_all(trial_, ignored);  // of a restore that was interrupted
    auto done = prepare();
    if (done) done = check();
    if (done) done = place();
    fs::remove_all(trial_, ignored);
    if (!done) return std::unexpected(std::move(done.error()));
    return std::move(restored_);
  }

 private:
  Result<void> prepare() {
    TRY(make_private_folder(trial_));
    TRY(store::copy_file_durably(request_.backup / kBackupDatabase, trial_ / kBackupDatabase));
    return store::check_database(trial_ / kBackupDatabase);
  }

  /// Migrates the copy and checks it as a whole, and against what was published outside.
  Result<void> check() {
    auto store = TRY(store::Store::open({.data_dir = trial_, .opened_us = request_.now_us}));
    const auto size = TRY(verify_log(*store));
    TRY(index_log(*store));
    TRY(verify_search(*store));
    TRY(end_sessions(*store));
    restored_.tree_size = size;
    auto options = request_.head;
    if (options.key_file.empty()) options.key_file = request_.data_dir / "log.key";
    if (options.head_file.empty()) options.head_file = request_.data_dir / "head.note";
    auto in_force = TRY(options_in_force(*store, std::move(options)));
    options_ = std::move(in_force);
    TRY(check_signed(*store));
    auto extends = extends_published(*store);
    if (extends) return {};
    if (!request_.accept_loss) {
      return schema::wrap(extends.error(),
                          "the backup is not restored. If nothing newer is left, accept the loss with "
                          "--accept-loss and a reason: it begins a new epoch of the log");
    }
    return begin_epoch(*store, extends.error());
  }

  /// A session that was ended since the backup must not come back: everybody signs in to the page again.
  static Result<void> end_sessions(store::Store& store) {
    return store.write("end all sessions", [](store::Tx& tx) -> Result<void> {
      TRY(tx.run(kEndSessions, {}));
      return {};
    });
  }

  /// Loads the key and the record of keys, and compares the log with the signed head in its own database:
  /// entries without a signature are not restored, whatever loss is accepted.
  Result<void> check_signed(store::Store& store) {
    auto key = TRY(SigningKey::load(options_.key_file.string()));
    key_.emplace(std::move(key));
    auto keys = TRY(load_trust(request_.data_dir));
    keys_ = std::move(keys);
    auto known = store.read([&](store::Reader& reader) {
      return check_stored(reader, options_.origin, key_->public_key(), keys_);
    });
    if (!known) return schema::wrap(known.error(), "the backup is not restored");
    is_signed_ = known->has_value();
    return {};
  }

  Result<void> extends_published(store::Store& store) {
    const auto head = TRY(store.read(
        [&](store::Reader& reader) { return check_published(reader, options_, key_->public_key(), keys_); }));
    if (is_signed_ || !commits_are_signed(options_)) return {};
    // A backup of a version that did not sign commits, of a log whose commits have been signed since: the
    // published head must cover all of it.
    if (head.size != restored_.tree_size) return emptied_head(options_);
    return store.write("sign the head of an older backup", [&](store::Tx& tx) -> Result<void> {
      TRY(sign_and_store(tx, options_.origin, *key_));
      return {};
    });
  }

  /// Writes the entry that says what was lost, and signs the new log's first head.
  Result<void> begin_epoch(store::Store& store, const schema::Error& loss) {
    if (request_.reason.empty()) {
      return schema::fail(ErrorCode::invalid_argument, "a loss is accepted with a reason (--reason)");
    }
    auto next = TRY(next_key());
    published_ = read_note(options_.head_file);
    old_origin_ = options_.origin;
    auto signed_head = TRY(store.write("begin an epoch", [&](store::Tx& tx) -> Result<StoredHead> {
      const auto epoch = TRY(log_epoch(tx));
      const auto root = TRY(root_at(tx, restored_.tree_size));
      const auto kept = TRY(sign_checkpoint({old_origin_, restored_.tree_size, root}, *key_));
      restored_.epoch = epoch + 1;
      options_.origin = origin_of(request_.head.origin, restored_.epoch);
      schema::EntryDraft entry{
          .time_us = request_.now_us, .kind = schema::EvidenceKind::epoch_changed, .actor = kActor};
      entry.body = {{"epoch", restored_.epoch},         {"origin", options_.origin},
                    {"kept_size", restored_.tree_size}, {"kept_head", kept},
                    {"published_head", published_},     {"loss", loss.message},
                    {"reason", request_.reason}};
      TRY(append(tx, entry));
      entry.kind = schema::EvidenceKind::key_rotated;
      entry.body = {{"use", to_string(KeyUse::head)},
                    {"name", options_.origin},
                    {"old_key", verifier_key_text(old_origin_, key_->public_key())},
                    {"new_key", verifier_key_text(options_.origin, next.public_key())},
                    {"from_size", 0},
                    {"reason", "each epoch has a key of its own"}};
      TRY(append(tx, entry));
      return sign_and_store(tx, options_.origin, next);
    }));
    restored_.tree_size = signed_head.size;
    new_head_ = std::move(signed_head.note);
    return {};
  }

  /// The key of the new epoch. It takes its place when the daemon starts next: see finish_rotation.
  [[nodiscard]] Result<SigningKey> next_key() const {
    const std::string path = options_.key_file.string() + ".next";
    std::error_code ignored;
    fs::remove(path, ignored);  // of a restore that was interrupted
    auto key = TRY(SigningKey::generate());
    TRY(key.save(path));
    return key;
  }

  [[nodiscard]] Result<void> end_old_keys() const {
    auto trust = TRY(load_trust(request_.data_dir));
    for (TrustedKey& key : trust.keys) {
      if (key.use == KeyUse::head && key.name == old_origin_ && !key.until_us) key.until_us = request_.now_us;
    }
    return save_trust(request_.data_dir, trust);
  }

  /// Sets the old database aside, puts the new one in its place, and then, in a new epoch, ends the keys of the
  /// one before and puts its head in its place.
  Result<void> place() {
    std::error_code error;
    if (fs::exists(request_.data_dir / kBackupDatabase, error)) {
      restored_.set_aside = request_.data_dir / fmt::format("before-restore-{}", request_.now_us);
      TRY(make_private_folder(restored_.set_aside));
      for (const std::string_view name : kDatabaseFiles) {
        if (fs::exists(request_.data_dir / name, error))
          fs::rename(request_.data_dir / name, restored_.set_aside / name, error);
        if (error) return failed("set aside", name, error);
      }
    }
    fs::rename(trial_ / kBackupDatabase, request_.data_dir / kBackupDatabase, error);
    if (error) return failed("place", kBackupDatabase, error);
    auto synced = base::sync_folder(request_.data_dir);
    if (!synced || new_head_.empty()) return synced;
    TRY(end_old_keys());
    if (!published_.empty() && !restored_.set_aside.empty()) {
      TRY(base::write_file_durably(restored_.set_aside / kBackupHead, published_, 0600));
    }
    return base::write_file_durably(options_.head_file, new_head_, 0644);
  }

  [[nodiscard]] static Result<void> failed(std::string_view what, std::string_view name,
                                           const std::error_code& error) {
    return schema::failf(ErrorCode::io, "cannot {} {}: {}", what, name, error.message());
  }

  const RestoreRequest& request_;
  const fs::path trial_;
  HeadOptions options_;
  std::optional<SigningKey> key_;
  TrustFile keys_;
  bool is_signed_ = false;  ///< the backup's database keeps a signed head
  Restored restored_;
  std::string old_origin_, published_, new_head_;
};

}  // namespace

Result<Backup> make_backup(store::Store& store, HeadPublisher& heads, const fs::path& parent,
                           const std::string& name) {
  if (name.empty() || name.starts_with('.') || name.find('/') != std::string::npos) {
    return schema::failf(ErrorCode::invalid_argument, "'{}' cannot name a backup", name);
  }
  const fs::path folder = parent / name;
  TRY(make_private_folder(folder));
  auto backup = fill(store, heads, folder);
  if (!backup) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    return backup;
  }
  TRY(base::sync_folder(parent));
  return backup;
}

Result<Restored> restore_backup(const RestoreRequest& request) {
  return Restore(request).run();
}

}  // namespace driftgate::evidence
