#include "daemon/evidence/log/head_publisher.hpp"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "daemon/base/durable_file.hpp"
#include "daemon/evidence/keys/key_files.hpp"
#include "daemon/evidence/log/epochs.hpp"
#include "daemon/evidence/log/head_check.hpp"
#include "daemon/evidence/log/head_signer.hpp"
#include "daemon/evidence/log/log.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

using schema::ErrorCode;

namespace {

constexpr std::chrono::milliseconds kMinInterval{20};  ///< between two publications
constexpr std::chrono::seconds kRetry{1};              ///< after a failed one

Result<SigningKey> load_or_generate(const std::filesystem::path& path, bool may_generate) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return SigningKey::load(path.string());
  if (!may_generate) {
    return schema::failf(ErrorCode::corrupt,
                         "the log's signing key {} is missing, though the log has a published head or "
                         "entries: restore the key from a backup",
                         path.string());
  }
  auto key = TRY(SigningKey::generate());
  TRY(key.save(path.string()));
  return key;
}

/// Whether there is a published head; `corrupt` when there is none of a log that has entries.
Result<bool> is_published(store::Store& store, const HeadOptions& options) {
  auto size = TRY(store.read([](store::Reader& reader) { return tree_size(reader); }));
  std::error_code ignored;
  if (std::filesystem::exists(options.head_file, ignored)) return true;
  if (size == 0) return false;
  return rollback(fmt::format("the log has {} entries and no head was published", size), options.head_file);
}

/// Compares the log with the published head and with the one that the database keeps. Nothing when no head
/// was stored yet: the log is new, or of a program that published heads and did not sign commits, and is
/// signed once as it is.
Result<std::optional<CheckedHead>> check_heads(store::Store& store, const HeadOptions& options,
                                               const PublicKey& key, const TrustFile& keys, bool published) {
  return store.read([&](store::Reader& reader) -> Result<std::optional<CheckedHead>> {
    if (published) {
      TRY(check_published(reader, options, key, keys));
    }
    auto known = check_stored(reader, options.origin, key, keys);
    if (!known && known.error().code == ErrorCode::forbidden) known.error().code = ErrorCode::corrupt;
    if (known && !*known && commits_are_signed(options)) return emptied_head(options);
    return known;
  });
}

/// From which size of the log a key is in force.
std::uint64_t in_force_from(const TrustFile& trust, const std::string& origin, const PublicKey& key) {
  for (const TrustedKey& known : trust.keys) {
    if (known.use == KeyUse::head && known.name == origin && known.key == key) return known.from_size;
  }
  return 0;
}

/// The head that is signed from now on: the stored one, or a new one by `key` where there was none or one by
/// the key before it.
Result<CheckedHead> renew_head(store::Store& store, const HeadOptions& options, const SigningKey& key,
                               std::optional<CheckedHead> known) {
  if (known && known->signer == key.public_key()) return std::move(*known);
  return store.write("sign the log's head", [&](store::Tx& tx) -> Result<CheckedHead> {
    auto head = TRY(sign_and_store(tx, options.origin, key));
    auto root = TRY(root_at(tx, head.size));
    if (known && (head.size != known->stored.size || root != known->root)) {
      return schema::fail(ErrorCode::corrupt,
                          "the evidence log was changed while it was being opened: start the daemon again");
    }
    return CheckedHead{std::move(head), root, key.public_key()};
  });
}

}  // namespace

Result<HeadOptions> options_in_force(store::Store& store, HeadOptions options) {
  if (options.key_file.empty()) options.key_file = store.data_dir() / "log.key";
  if (options.head_file.empty()) options.head_file = store.data_dir() / "head.note";
  auto epoch = TRY(store.read([](store::Reader& reader) { return log_epoch(reader); }));
  options.origin = origin_of(options.origin, epoch);
  return options;
}

class HeadPublisher::Impl {
 public:
  Impl(store::Store& store, HeadOptions options, std::shared_ptr<HeadSigner> signer, std::uint64_t key_from)
      : store_(store),
        options_(std::move(options)),
        signer_(std::move(signer)),
        public_key_(signer_->key().public_key()),
        key_from_(key_from) {}

  /// The newest head that the database keeps, its signature checked.
  Result<std::pair<std::string, Checkpoint>> newest(store::Reader& reader) const {
    auto stored = TRY(stored_head(reader));
    auto opened = open_checkpoint(stored.note, options_.origin, public_key_);
    if (!opened) return schema::wrap(opened.error(), "the signed head in the database was changed");
    return std::pair(std::move(stored.note), std::move(*opened));
  }

  Result<HeadOf> head_of(std::uint64_t size) const {
    return store_.read([&](store::Reader& reader) -> Result<HeadOf> {
      auto head = TRY(newest(reader));
      auto& [note, checkpoint] = head;
      if (size == checkpoint.size) return HeadOf{size, checkpoint.root, std::move(note), size, {}};
      if (size > checkpoint.size) {
        return schema::failf(ErrorCode::not_found, "the evidence log has {} entries, not {}", checkpoint.size,
                             size);
      }
      auto root = TRY(root_at(reader, size));
      auto proof = TRY(consistency_proof(reader, size, checkpoint.size));
      if (!verify_consistency(size, checkpoint.size, root, checkpoint.root, proof)) {
        return schema::failf(
            ErrorCode::corrupt,
            "the tree of the first {} entries does not belong to the signed head: the database was changed",
            size);
      }
      if (size < key_from_) return HeadOf{size, root, std::move(note), checkpoint.size, std::move(proof)};
      auto older = TRY(sign_checkpoint({options_.origin, size, root}, signer_->key()));
      return HeadOf{size, root, std::move(older), size, {}};
    });
  }

  Result<void> publish() {
    const auto size = write_newest();
    const std::lock_guard lock(mutex_);
    if (size) published_ = *size;
    failure_ = size ? std::nullopt : std::optional(size.error());
    ++attempts_;
    changed_.notify_all();
    if (!size) return std::unexpected(size.error());
    return {};
  }

  /// Writes the head file. Returns the size of the head.
  Result<std::uint64_t> write_newest() const {
    const auto [note, head] = TRY(store_.read([&](store::Reader& reader) { return newest(reader); }));
    TRY(base::write_file_durably(options_.head_file, note, 0644));
    return head.size;
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
  const std::shared_ptr<HeadSigner> signer_;
  const PublicKey public_key_;
  const std::uint64_t key_from_;  ///< size of the log from which on the key signs
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
  auto in_force = TRY(options_in_force(store, std::move(configured)));
  HeadOptions& options = in_force;
  const KeyFile key_file{KeyUse::head, options.key_file, options.origin};
  TRY(finish_rotation(store, key_file));
  auto published = TRY(is_published(store, options));
  auto key = TRY(load_or_generate(options.key_file, !published));
  const PublicKey public_key = key.public_key();
  auto keys = TRY(load_trust(store.data_dir()));
  TRY(check_key(keys, key_file, public_key));
  auto known = TRY(check_heads(store, options, public_key, keys, published));
  TRY(note_key(store.data_dir(), key_file, public_key, 0, options.now_us));
  auto head = TRY(renew_head(store, options, key, std::move(known)));
  TRY(note_signed_commits(options, head.stored.size));
  const auto from = in_force_from(keys, options.origin, public_key);
  auto signer =
      std::make_shared<HeadSigner>(options.origin, std::move(key), std::move(head.stored), head.root);
  store.set_commit_hook(signer);
  auto impl = std::make_unique<Impl>(store, std::move(options), std::move(signer), from);
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
  auto head = TRY(impl_->store_.read([&](store::Reader& reader) { return impl_->newest(reader); }));
  return std::move(head.first);
}

Result<HeadOf> HeadPublisher::head_of(std::uint64_t size) {
  return impl_->head_of(size);
}

Result<std::string> HeadPublisher::signed_head_at(std::uint64_t size) {
  auto head = TRY(impl_->head_of(size));
  if (head.note_size == size) return std::move(head.note);
  return schema::failf(
      ErrorCode::unsupported,
      "the key that signed heads of {} entries is retired: the key in force signs heads from {} entries on",
      size, impl_->key_from_);
}

std::string HeadPublisher::verifier_key() const {
  return verifier_key_text(impl_->options_.origin, impl_->public_key_);
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
