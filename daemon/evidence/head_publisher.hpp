#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "daemon/evidence/signed_note.hpp"
#include "daemon/evidence/trust.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::evidence {

inline constexpr std::chrono::seconds kMaxPublishWait{5};

struct HeadOptions {
  std::string origin = "driftgate.local/log";  ///< names the log in its checkpoints; no spaces or '+'
  std::filesystem::path key_file{};   ///< empty: <data_dir>/log.key; generated (0600) at the first start
  std::filesystem::path head_file{};  ///< empty: <data_dir>/head.note; better on another disk
  std::int64_t now_us = 0;            ///< wall clock, noted beside a key that is used for the first time
};

/// The options with the default files filled in and the origin of the log's epoch.
[[nodiscard]] Result<HeadOptions> options_in_force(store::Store& store, HeadOptions options);

/// That the log extends the published head, which `key` or one of the `retired` ones signed. `corrupt` with
/// "rollback detected".
[[nodiscard]] Result<void> check_published(store::Reader& reader, const HeadOptions& options,
                                           const PublicKey& key, const TrustFile& retired);

/// Signs the newest head and publishes it outside the database after commits: written to a temporary file,
/// synced, renamed, folder synced. Commits that come during a publication share the next one.
class HeadPublisher {
 public:
  /// Loads or generates the key, checks that the log extends the published head and begins to publish.
  /// `corrupt` with "rollback detected" when it does not, when the head's signature does not verify, or when
  /// the log has entries and there is no published head: start it before the first entry is written.
  [[nodiscard]] static Result<std::unique_ptr<HeadPublisher>> start(store::Store& store, HeadOptions options);
  ~HeadPublisher();  ///< publishes what is left and stops

  /// Signs the head of the tree as it is now, or of the first `size` leaves.
  [[nodiscard]] Result<std::string> signed_head();
  [[nodiscard]] Result<std::string> signed_head_at(std::uint64_t size);
  [[nodiscard]] std::string verifier_key() const;
  /// Size of the newest published head.
  [[nodiscard]] std::uint64_t published_size() const;
  /// Waits until the head of at least `size` leaves is published; the failure when publishing fails,
  /// `deadline_exceeded` after kMaxPublishWait.
  [[nodiscard]] Result<void> wait_published(std::uint64_t size);
  /// Why the last publication failed, or nothing: the newest head is then older than the log.
  [[nodiscard]] std::optional<schema::Error> last_failure() const;
  /// Publishes what is left and stops; call it before Store::stop. Idempotent.
  void stop();

 private:
  class Impl;
  explicit HeadPublisher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace driftgate::evidence
