#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>

#include "daemon/evidence/bundle/bundle_export.hpp"

namespace driftgate::evidence {

/// How many bundles may be verified at the same time: each occupies one thread until it is done.
inline constexpr int kMaxVerifying = 2;

/// Makes bundles that the program's own verifier accepted before their first byte is handed out. A bundle is
/// made twice from one snapshot of the log, piece by piece: first for the verifier, then for the client.
/// Neither memory nor disk ever holds it as a whole.
class VerifiedBundles {
 public:
  using LogError = std::function<void(std::string_view)>;
  /// The three outlive this. `log_error` is told of a bundle that does not verify.
  VerifiedBundles(store::Store& store, HeadPublisher& heads, const AttestationSigner& signer,
                  LogError log_error);

  /// Errors of BundleExport::open, without verifying anything.
  [[nodiscard]] Result<void> find(const BundleRequest& request) const;
  /// Errors of BundleExport::open; `corrupt` with the findings when the bundle does not verify; `unavailable`
  /// while kMaxVerifying others are verified, and once the request is stopped. The export itself fails at its
  /// end, which it then lacks, when it is not the bundle that was verified.
  [[nodiscard]] Result<std::unique_ptr<BundleExport>> open(const BundleRequest& request);

 private:
  [[nodiscard]] Result<void> verify(BundleExport& bundle, const std::stop_token& stop) const;

  store::Store& store_;
  HeadPublisher& heads_;
  const AttestationSigner& signer_;
  LogError log_error_;
  std::atomic<int> verifying_{0};
};

}  // namespace driftgate::evidence
