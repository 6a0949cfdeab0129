#include "daemon/evidence/head_publisher.hpp"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "daemon/evidence/epochs.hpp"
#include "daemon/evidence/key_files.hpp"
#include "daemon/evidence/log.hpp"
#include "daemon/store/durable_file.hpp"

namespace driftgate::evidence {

using schema::ErrorCode;

namespace {

constexpr std::chrono::milliseconds kMinInterval{20};  ///< between two publications
constexpr std::chrono::seconds kRetry{1};              ///< after a failed one
constexpr std::streamsize kMaxHeadBytes = 16'384;

Result<SigningKey> load_or_generate(const std::filesystem::path& path, bool may_generate) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return SigningKey::load(path.string());
  if (!may_generate) {
    return schema::fail(ErrorCode::corrupt,
                        fmt::format("the log's signing key {} is missing, though the log has a "
                                    "published head or entries: restore the key from a backup",
                                    path.string()));
  }
  auto key = SigningKey::generate();
  if (!key) return key;
  auto saved = key->save(path.string());
  if (!saved) return std::unexpected(std::move(saved.error()));
  return key;
}

Result<std::string> read_head(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string note(kMaxHeadBytes, '\0');
  file.read(note.data(), kMaxHeadBytes);
  if (file.bad()) return schema::fail(ErrorCode::io, "cannot read the published head " + path.string());
  note.resize(static_cast<std::size_t>(file.gcount()));
  return note;
}

std::unexpected<schema::Error> rollback(const std::string& what, const std::filesystem::path& head) {
  return schema::fail(
      ErrorCode::corrupt,
      fmt::format("rollback detected: {} (published head: {}). Restore the newest database; do not delete "
                  "the head",
                  what, head.string()));
}

/// What the published head says, signed by the key or by one that it took the place of.
Result<Checkpoint> open_published(const std::string& note, const HeadOptions& options, const PublicKey& key,
                                  const TrustFile& retired) {
  auto head = open_checkpoint(note, options.origin, key);
  if (head) return head;
  for (const TrustedKey& old : retired.keys) {
    if (old.use != KeyUse::head || old.name != options.origin) continue;
    auto opened = open_checkpoint(note, options.origin, old.key);
    if (opened) return opened;
  }
  return head;
}

}  // namespace

Result<void> check_published(store::Reader& reader, const HeadOptions& options, const PublicKey& key,
                             const TrustFile& retired) {
  auto note = read_head(options.head_file);
  if (!note) return std::unexpected(std::move(note.error()));
  auto head = open_published(*note, options, key, retired);
  if (!head) {
    return rollback("the published head cannot be trusted: " + head.error().message, options.head_file);
  }
  auto size = tree_size(reader);
  if (!size) return std::unexpected(std::move(size.error()));
  if (*size < head->size) {
    return rollback(fmt::format("the log has {} entries and {} were published", *size, head->size),
                    options.head_file);
  }
  auto root = root_at(reader, head->size);
  if (!root) return std::unexpected(std::move(root.error()));
  if (*root != head->root) {
    return rollback(fmt::format("the first {} entries are not those that were published", head->size),
                    options.head_file);
  }
  return {};
}

Result<HeadOptions> options_in_force(store::Store& store, HeadOptions options) {
  if (options.key_file.empty()) options.key_file = store.data_dir() / "log.key";
  if (options.head_file.empty()) options.head_file = store.data_dir() / "head.note";
  auto epoch = store.read([](store::Reader& reader) { return log_epoch(reader); });
  if (!epoch) return std::unexpected(std::move(epoch.error()));
  options.origin = origin_of(options.origin, *epoch);
  return options;
}

class HeadPublisher::Impl {
 public:
  Impl(store::Store& store, HeadOptions options, SigningKey key)
      : store_(store), options_(std::move(options)), key_(std::move(key)) {}

  Result<std::string> sign(std::optional<std::uint64_t> wanted, std::uint64_t& signed_size) {
    auto head = store_.read([&](store::Reader& reader) -> Result<Checkpoint> {
      auto size = wanted ? Result<std::uint64_t>(*wanted) : tree_size(reader);
      if (!size) return std::unexpected(std::move(size.error()));
      auto root = root_at(reader, *size);
      if (!root) return std::unexpected(std::move(root.error()));
      return Checkpoint{options_.origin, *size, *root};
    });
    if (!head) return std::unexpected(std::move(head.error()));
    signed_size = head->size;
    return sign_checkpoint(*head, key_);
  }

  Result<void> publish() {
    std::uint64_t size = 0;
    auto note = sign(std::nullopt, size);
    Result<void> done;
    if (!note) {
      done = std::unexpected(std::move(note.error()));
    } else {
      done = store::write_file_durably(options_.head_file, *note, 0644, store::IfPresent::replace);
    }
    const std::lock_guard lock(mutex_);
    if (done) published_ = size;
    failure_ = done ? std::nullopt : std::optional<schema::Error>(done.error());
    ++attempts_;
    changed_.notify_all();
    return done;
  }

  void begin() {
    listener_ = store_.add_commit_listener([this] {
      const std::lock_guard lock(mutex_);
      dirty_ = true;
      changed_.notify_all();
    });
    thread_ = std::thread([this] { loop(); });
  }

  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto woken = [this] { return dirty_ || stopping_; };
      if (failure_) {
        changed_.wait_for(lock, kRetry, woken);
      } else {
        changed_.wait(lock, woken);
      }
      if (stopping_) return;
      if (dirty_ || failure_) {
        dirty_ = false;
        lock.unlock();
        [[maybe_unused]] const auto done = publish();  // kept in failure_, tried again
        lock.lock();
      }
      changed_.wait_for(lock, kMinInterval, [this] { return stopping_; });
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(stopping_, true)) return;
      changed_.notify_all();
    }
    store_.remove_listener(listener_);
    thread_.join();
    // A commit whose listener had not run yet when the loop ended is published here.
    [[maybe_unused]] const auto done = publish();  // kept in failure_
  }

  store::Store& store_;
  const HeadOptions options_;
  const SigningKey key_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool dirty_ = false;
  bool stopping_ = false;
  std::uint64_t published_ = 0;
  std::uint64_t attempts_ = 0;
  std::optional<schema::Error> failure_;
  std::size_t listener_ = 0;
  std::thread thread_;
};

Result<std::unique_ptr<HeadPublisher>> HeadPublisher::start(store::Store& store, HeadOptions configured) {
  auto renewed = renew_derived(store);
  if (!renewed) return std::unexpected(std::move(renewed.error()));
  auto in_force = options_in_force(store, std::move(configured));
  if (!in_force) return std::unexpected(std::move(in_force.error()));
  HeadOptions& options = *in_force;
  const KeyFile key_file{KeyUse::head, options.key_file, options.origin};
  auto finished = finish_rotation(store, key_file);
  if (!finished) return std::unexpected(std::move(finished.error()));
  auto size = store.read([](store::Reader& reader) { return tree_size(reader); });
  if (!size) return std::unexpected(std::move(size.error()));
  std::error_code ignored;
  const bool published = std::filesystem::exists(options.head_file, ignored);
  if (!published && *size > 0) {
    return rollback(fmt::format("the log has {} entries and no head was published", *size),
                    options.head_file);
  }
  auto key = load_or_generate(options.key_file, !published);
  if (!key) return std::unexpected(std::move(key.error()));
  auto keys = load_trust(store.data_dir());
  if (!keys) return std::unexpected(std::move(keys.error()));
  auto in_charge = check_key(*keys, key_file, key->public_key());
  if (!in_charge) return std::unexpected(std::move(in_charge.error()));
  if (published) {
    auto extends = store.read(
        [&](store::Reader& reader) { return check_published(reader, options, key->public_key(), *keys); });
    if (!extends) return std::unexpected(std::move(extends.error()));
  }
  auto noted = note_key(store.data_dir(), key_file, key->public_key(), 0, options.now_us);
  if (!noted) return std::unexpected(std::move(noted.error()));
  auto impl = std::make_unique<Impl>(store, std::move(options), std::move(*key));
  auto done = impl->publish();
  if (!done) return schema::wrap(done.error(), "the log's head cannot be published");
  impl->begin();
  return std::unique_ptr<HeadPublisher>(new HeadPublisher(std::move(impl)));
}

HeadPublisher::HeadPublisher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HeadPublisher::~HeadPublisher() {
  impl_->stop();
}
void HeadPublisher::stop() {
  impl_->stop();
}

Result<std::string> HeadPublisher::signed_head() {
  std::uint64_t size = 0;
  return impl_->sign(std::nullopt, size);
}

Result<std::string> HeadPublisher::signed_head_at(std::uint64_t size) {
  std::uint64_t signed_size = 0;
  return impl_->sign(size, signed_size);
}

std::string HeadPublisher::verifier_key() const {
  return verifier_key_text(impl_->options_.origin, impl_->key_.public_key());
}

std::uint64_t HeadPublisher::published_size() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->published_;
}

std::optional<schema::Error> HeadPublisher::last_failure() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->failure_;
}

Result<void> HeadPublisher::wait_published(std::uint64_t size) {
  std::unique_lock lock(impl_->mutex_);
  const std::uint64_t before = impl_->attempts_;
  const bool ended = impl_->changed_.wait_for(lock, kMaxPublishWait, [&] {
    const bool failed = impl_->failure_ && impl_->attempts_ > before;
    return impl_->published_ >= size || failed || impl_->stopping_;
  });
  if (impl_->published_ >= size) return {};
  if (impl_->failure_) return std::unexpected(*impl_->failure_);
  if (!ended) return schema::fail(ErrorCode::deadline_exceeded, "the log's head was not published in time");
  return schema::fail(ErrorCode::unavailable, "the daemon is stopping");
}

}  // namespace driftgate::evidence
