#include "daemon/store/store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "daemon/store/sqlite/folder_lock.hpp"
#include "daemon/store/sqlite/log_guard.hpp"
#include "daemon/store/sqlite/migrate.hpp"
#include "daemon/store/sqlite/reader_pool.hpp"
#include "daemon/store/sqlite/write_scope.hpp"
#include "daemon/store/sqlite/writer.hpp"
#include "schema/failf.hpp"

namespace driftgate::store {

namespace {

[[noreturn]] void exit_io(const std::string& message) {
  const std::string line = "driftgate: " + message + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(kExitIo);  // no destructor may touch the database now
}

Result<void> make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return {};
  std::filesystem::create_directories(folder, error);
  if (!error) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  if (error) {
    return schema::failf(ErrorCode::io, "cannot create the data folder {}: {}", folder.string(),
                         error.message());
  }
  return {};
}

/// SQLite gives the WAL and its index the mode of the database file, so making that first is enough.
Result<void> make_private_file(const std::string& path) {
  const base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || ::fchmod(file.get(), 0600) != 0) {
    return schema::failf(ErrorCode::io, "cannot open the database {}: {}", path, std::strerror(errno));
  }
  return {};
}

Result<std::vector<std::unique_ptr<Connection>>> open_readers(const std::string& path,
                                                              const StoreOptions& options) {
  std::vector<std::unique_ptr<Connection>> readers;
  for (std::size_t i = 0; i < options.readers; ++i) {
    auto reader = TRY(Connection::open(path, Connection::Mode::read_only, options.vfs));
    readers.push_back(std::move(reader));
  }
  return readers;
}

/// That there is a database of this program's schema; nothing is made or changed.
Result<void> check_existing(const std::string& path, const StoreOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return schema::failf(ErrorCode::not_found, "there is no database {}", path);
  }
  auto reader = TRY(Connection::open(path, Connection::Mode::read_only, options.vfs));
  auto current = check_schema(*reader, embedded_migrations());
  if (!current) return schema::wrap(current.error(), "cannot use the database " + path);
  return {};
}

/// The only connection that writes, to a database that is made and migrated as needed.
Result<std::unique_ptr<Connection>> open_writer(const std::string& path, const StoreOptions& options) {
  TRY(make_private_file(path));
  auto writer = TRY(Connection::open(path, Connection::Mode::read_write, options.vfs));
  std::error_code unknown;
  const auto space = std::filesystem::space(path, unknown);
  auto migrated = unknown ? Result<void>() : check_space(*writer, embedded_migrations(), space.available);
  if (migrated) migrated = migrate(*writer, embedded_migrations(), options.opened_us);
  if (!migrated) return schema::wrap(migrated.error(), "cannot use the database " + path);
  install_log_guard(*writer);
  return writer;
}

}  // namespace

class Store::Impl {
 public:
  Impl(FolderLock lock, std::filesystem::path data_dir, std::unique_ptr<Connection> writer,
       std::vector<std::unique_ptr<Connection>> readers, const StoreOptions& options)
      : lock_(std::move(lock)), data_dir_(std::move(data_dir)), readers_(std::move(readers)) {
    if (writer == nullptr) return;
    writer_.emplace(std::move(writer), options.queue_limit,
                    options.on_unknown_commit ? options.on_unknown_commit : exit_io);
  }

  FolderLock lock_;  // given back last
  std::filesystem::path data_dir_;
  std::optional<Writer> writer_;  // closes after the readers, so that only it ever checkpoints
  ReaderPool readers_;
};

Result<std::unique_ptr<Store>> Store::open(const StoreOptions& options) {
  if (options.queue_limit == 0 || options.readers == 0) {
    return schema::fail(ErrorCode::invalid_argument, "the store needs a queue and at least one reader");
  }
  const std::string path = (options.data_dir / "driftgate.db").string();
  TRY(options.read_only ? check_existing(path, options) : make_folder(options.data_dir));
  auto lock = TRY(FolderLock::take(options.data_dir));
  auto writer = TRY(options.read_only ? Result<std::unique_ptr<Connection>>() : open_writer(path, options));
  auto readers = TRY(open_readers(path, options));
  auto data_dir = options.data_dir;
  return std::unique_ptr<Store>(new Store(std::make_unique<Impl>(
      std::move(lock), std::move(data_dir), std::move(writer), std::move(readers), options)));
}

Result<std::optional<std::int64_t>> Store::look(const std::filesystem::path& data_dir) {
  const auto path = data_dir / "driftgate.db";
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error)
    return schema::failf(ErrorCode::io, "cannot look at the database {}: {}", path.string(), error.message());
  if (!there) return std::nullopt;
  auto reader = TRY(Connection::open(path.string(), Connection::Mode::read_only, {}));
  const auto version = check_known(*reader, embedded_migrations());
  if (!version) return schema::wrap(version.error(), "cannot use the database " + path.string());
  return *version;
}

Result<void> Store::check_room(const std::filesystem::path& data_dir) {
  const auto path = data_dir / "driftgate.db";
  std::error_code error;
  const auto space = std::filesystem::space(path, error);
  if (error) return {};
  auto reader = TRY(Connection::open(path.string(), Connection::Mode::read_only, {}));
  if (auto room = check_space(*reader, embedded_migrations(), space.available); !room)
    return schema::wrap(room.error(), "cannot use the database " + path.string());
  return {};
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Store::~Store() {
  stop();
}

void Store::stop() {
  impl_->readers_.close();
  if (impl_->writer_) impl_->writer_->stop();
}

/// In the scope of the caller, which is asked first: in the transaction of the write, so that what it allows is
/// true when the write takes effect.
Result<void> Store::submit(std::string_view what, Result<void> (*run)(void*, Tx&), void* context) {
  if (!impl_->writer_) {
    return schema::failf(ErrorCode::unsupported, "{}: the database is open read-only", what);
  }
  struct Scoped {
    Result<void> (*run)(void*, Tx&);
    void* context;
    WriteScope* scope;
  };
  Scoped scoped{run, context, current_write_scope()};
  if (scoped.scope == nullptr) return impl_->writer_->submit(what, run, context);
  const auto run_scoped = [](void* data, Tx& tx) -> Result<void> {
    const Scoped& wanted = *static_cast<Scoped*>(data);
    const EnterWriteScope entered(wanted.scope);
    auto allowed = wanted.scope->allow(tx);
    return allowed ? wanted.run(wanted.context, tx) : allowed;
  };
  return impl_->writer_->submit(what, run_scoped, &scoped);
}

Result<void> Store::with_reader(void (*run)(void*, Reader&), void* context) {
  return impl_->readers_.run(run, context);
}

std::size_t Store::add_commit_listener(std::function<void()> listener) {
  return impl_->writer_ ? impl_->writer_->add_listener(std::move(listener)) : 0;
}

void Store::remove_listener(std::size_t listener) {
  if (impl_->writer_) impl_->writer_->remove_listener(listener);
}

void Store::set_commit_hook(std::shared_ptr<CommitHook> hook) {
  if (impl_->writer_) impl_->writer_->set_commit_hook(std::move(hook));
}

Store::Stats Store::stats() const {
  return impl_->writer_ ? impl_->writer_->stats() : Stats();
}

const std::filesystem::path& Store::data_dir() const {
  return impl_->data_dir_;
}

}  // namespace driftgate::store
