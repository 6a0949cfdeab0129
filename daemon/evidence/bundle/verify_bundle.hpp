#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "daemon/evidence/keys/trust.hpp"
#include "daemon/evidence/verify/derivation.hpp"
#include "schema/error.hpp"

namespace driftgate::evidence {

/// What a bundle is found to be; the numbers are the exit codes of `driftgate audit verify`.
enum class BundleResult : std::uint8_t {
  ok = 0,
  tampered = 1,     ///< bytes, hashes, proofs or signatures do not fit together
  forked = 2,       ///< the head is no continuation of the older head
  untrusted = 3,    ///< signed by a key that the trust file does not have
  incomplete = 4,   ///< something that belongs to it is missing
  underivable = 5,  ///< a verdict, state or attestation does not follow from its evidence
};
[[nodiscard]] std::string_view to_string(BundleResult result);

struct BundleFinding {
  BundleResult result = BundleResult::ok;
  std::string message{};  ///< names the entry and the field
};

struct BundleReport {
  /// Of several findings the one that says most about the others: tampered, untrusted, forked, incomplete,
  /// underivable, in this order.
  BundleResult result = BundleResult::ok;
  std::vector<BundleFinding> findings{};  ///< the first kMaxFindings
  std::vector<std::string> notes{};       ///< what was looked at beyond the signatures, and what could not be
  std::string subject{};                  ///< "promotion pr-…" or "entries 12 to 40"
  std::uint64_t tree_size = 0, entries = 0, verdicts = 0, attestations = 0, blobs = 0;
};
inline constexpr std::size_t kMaxFindings = 20;

/// Decides a stage again from its measurement table: contract's canonical JSON, the recorded decision, the
/// table's bytes. `unsupported` for a stage that cannot be decided from a table alone.
using Reevaluate = std::function<schema::Result<std::vector<schema::ClauseVerdict>>(
    const std::string& contract, const StageDecision& decision, const std::string& table)>;

struct VerifyOptions {
  TrustFile trust{};
  std::optional<std::string> older_head{};  ///< a signed note that was kept
  Reevaluate reevaluate{};                  ///< may be empty
  /// Accepts the bundle of a promotion that has not ended in it. Otherwise that is `incomplete`: a bundle
  /// whose last entries were taken away looks the same.
  bool running = false;
};

/// Reads a bundle (docs/evidence.md) as it streams and checks signatures, hashes, proofs, completeness and
/// that every verdict follows from its recorded numbers. Needs nothing but the trust file.
[[nodiscard]] BundleReport verify_bundle(std::istream& in, const VerifyOptions& options);

}  // namespace driftgate::evidence
