#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/evidence/keys/signed_note.hpp"
#include "daemon/evidence/log/head_options.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::evidence {

inline constexpr std::chrono::seconds kMaxPublishWait{5};

/// The options with the default files filled in and the origin of the log's epoch.
[[nodiscard]] Result<HeadOptions> options_in_force(store::Store& store, HeadOptions options);

/// A signed head that says what the first `size` entries of the log were.
struct HeadOf {
  std::uint64_t size = 0;       ///< that was asked for
  Hash root{};                  ///< of the first `size` entries
  std::string note{};           ///< of that size, or of a later one where the key of that size is retired
  std::uint64_t note_size = 0;  ///< entries that the note covers
  /// From `size` to `note_size` (RFC 9162, 2.1.4); empty when both are the same.
  std::vector<Hash> continuation{};
};

/// Signs the head of each commit in its transaction (HeadSigner) and publishes the newest one outside the
/// database after commits: written to a temporary file, synced, renamed, folder synced. Commits that come
/// during a publication share the next one.
class HeadPublisher {
 public:
  /// Loads or generates the key, checks that the log extends the published head and that the head which the
  /// database keeps covers each entry, and begins to sign and to publish. From then on until the store stops,
  /// each commit is signed. `corrupt` with "rollback detected" when the published head is not extended, when
  /// its signature does not verify, or when the log has entries and there is no published head: start it
  /// before the first entry is written. `corrupt` for entries without a signature, which are never signed
  /// later.
  [[nodiscard]] static Result<std::unique_ptr<HeadPublisher>> start(store::Store& store, HeadOptions options);
  ~HeadPublisher();  ///< publishes what is left and stops

  /// The signed head of the newest commit.
  [[nodiscard]] Result<std::string> signed_head();
  /// A head that shows what the first `size` entries were. A size before the key in force gets the newest
  /// head with the proof that it continues that size: a key signs nothing of the time before it. `not_found`
  /// when the log is smaller.
  [[nodiscard]] Result<HeadOf> head_of(std::uint64_t size);
  /// The signed head of exactly the first `size` entries; `unsupported` when its key is retired.
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
