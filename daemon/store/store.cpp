#include "daemon/store/store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/store/connection.hpp"
#include "daemon/store/folder_lock.hpp"
#include "daemon/store/log_guard.hpp"
#include "daemon/store/migrate.hpp"
#include "daemon/store/reader_pool.hpp"
#include "daemon/store/writer.hpp"

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
    return schema::fail(
        ErrorCode::io, fmt::format("cannot create the data folder {}: {}", folder.string(), error.message()));
  }
  return {};
}

/// SQLite gives the WAL and its index the mode of the database file, so making that first is enough.
Result<void> make_private_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0 || ::fchmod(fd, 0600) != 0) {
    const int error = errno;
    if (fd >= 0) ::close(fd);
    return schema::fail(ErrorCode::io,
                        fmt::format("cannot open the database {}: {}", path, std::strerror(error)));
  }
  ::close(fd);
  return {};
}

Result<std::vector<std::unique_ptr<Connection>>> open_readers(const std::string& path,
                                                              const StoreOptions& options) {
  std::vector<std::unique_ptr<Connection>> readers;
  for (std::size_t i = 0; i < options.readers; ++i) {
    auto reader = Connection::open(path, Connection::Mode::read_only, options.vfs);
    if (!reader) return std::unexpected(std::move(reader.error()));
    readers.push_back(std::move(*reader));
  }
  return readers;
}

}  // namespace

class Store::Impl {
 public:
  Impl(FolderLock lock, std::filesystem::path data_dir, std::unique_ptr<Connection> writer,
       std::vector<std::unique_ptr<Connection>> readers, const StoreOptions& options)
      : lock_(std::move(lock)),
        data_dir_(std::move(data_dir)),
        writer_(std::move(writer), options.queue_limit,
                options.on_unknown_commit ? options.on_unknown_commit : exit_io),
        readers_(std::move(readers)) {}

  FolderLock lock_;  // given back last
  std::filesystem::path data_dir_;
  Writer writer_;  // closes after the readers, so that only it ever checkpoints
  ReaderPool readers_;
};

Result<std::unique_ptr<Store>> Store::open(StoreOptions options) {
  if (options.queue_limit == 0 || options.readers == 0) {
    return schema::fail(ErrorCode::invalid_argument, "the store needs a queue and at least one reader");
  }
  auto made = make_folder(options.data_dir);
  if (!made) return std::unexpected(std::move(made.error()));
  auto lock = FolderLock::take(options.data_dir);
  if (!lock) return std::unexpected(std::move(lock.error()));
  const std::string path = (options.data_dir / "driftgate.db").string();
  made = make_private_file(path);
  if (!made) return std::unexpected(std::move(made.error()));
  auto writer = Connection::open(path, Connection::Mode::read_write, options.vfs);
  if (!writer) return std::unexpected(std::move(writer.error()));
  auto migrated = migrate(**writer, embedded_migrations(), options.opened_us);
  if (!migrated) return schema::wrap(migrated.error(), "cannot use the database " + path);
  install_log_guard(**writer);
  auto readers = open_readers(path, options);
  if (!readers) return std::unexpected(std::move(readers.error()));
  auto data_dir = options.data_dir;
  return std::unique_ptr<Store>(new Store(std::make_unique<Impl>(
      std::move(*lock), std::move(data_dir), std::move(*writer), std::move(*readers), options)));
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Store::~Store() {
  stop();
}

void Store::stop() {
  impl_->readers_.close();
  impl_->writer_.stop();
}

Result<void> Store::submit(std::string_view what, Result<void> (*run)(void*, Tx&), void* context) {
  return impl_->writer_.submit(what, run, context);
}

Result<void> Store::with_reader(void (*run)(void*, Reader&), void* context) {
  return impl_->readers_.run(run, context);
}

std::size_t Store::add_commit_listener(std::function<void()> listener) {
  return impl_->writer_.add_listener(std::move(listener));
}

void Store::remove_listener(std::size_t listener) {
  impl_->writer_.remove_listener(listener);
}

Store::Stats Store::stats() const {
  return impl_->writer_.stats();
}

const std::filesystem::path& Store::data_dir() const {
  return impl_->data_dir_;
}

}  // namespace driftgate::store
