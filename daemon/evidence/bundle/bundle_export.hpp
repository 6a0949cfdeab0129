#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "daemon/evidence/bundle/dsse.hpp"
#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::evidence {

/// What a bundle is about: one promotion, or, when that is empty, all entries between two times.
struct BundleRequest {
  std::string promotion{};
  std::int64_t from_us = 0;                   ///< inclusive
  std::int64_t to_us = 0;                     ///< exclusive
  std::optional<std::uint64_t> older_size{};  ///< of a head seen before: adds the proof that it is extended
  bool with_tables = false;                   ///< adds measurement tables, reports and approved evidence
  std::stop_token stop{};                     ///< nobody waits for it any more, while it is verified
};

/// A bundle, made piece by piece as it is sent: JSON Lines, see docs/evidence.md. All is read at the one tree
/// size of the bundle's head, in short read transactions, so that neither a slow reader nor a large log holds
/// anything.
class BundleExport {
 public:
  /// `not_found` for a promotion without entries and for an older size beyond the log, `invalid_argument` for
  /// a time range that ends before it begins, or that no bundle can state: from 0 to 2^53 − 1.
  [[nodiscard]] static Result<std::unique_ptr<BundleExport>> open(store::Store& store, HeadPublisher& heads,
                                                                  const AttestationSigner& signer,
                                                                  BundleRequest request);
  ~BundleExport();
  /// The next lines, each with its line end; empty when the bundle is complete.
  [[nodiscard]] Result<std::string> next();
  /// Of a bundle that is complete: the same one from its beginning, of the same head. When its lines come to be
  /// others, `corrupt` instead of its end.
  [[nodiscard]] std::unique_ptr<BundleExport> again() const;

 private:
  class Impl;
  explicit BundleExport(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace driftgate::evidence
