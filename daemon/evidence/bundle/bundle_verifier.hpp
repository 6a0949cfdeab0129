#pragma once

#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/evidence/bundle/bundle_record.hpp"
#include "daemon/evidence/bundle/dsse.hpp"
#include "daemon/evidence/bundle/verify_bundle.hpp"
#include "daemon/evidence/log/subtrees.hpp"
#include "schema/sha256.hpp"

namespace driftgate::evidence {

/// Verifies a bundle line by line.
class BundleVerifier {
 public:
  explicit BundleVerifier(const VerifyOptions& options) : options_(options) {}
  /// False when nothing after this line can be read.
  bool take(const std::string& line);
  BundleReport finish();
  void report(BundleResult result, std::string message);
  template <typename... Args>
  void report(BundleResult result, fmt::format_string<Args...> format, Args&&... args) {
    report(result, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  enum class Place : std::uint8_t { start, head, contract, entries, attestations, blobs, end };

  // bundle_verifier.cpp: lines
  Result<void> header(const BundleRecord& record);
  Result<void> consistency(const BundleRecord& record);
  Result<void> range(const BundleRecord& record);
  Result<void> entry(const BundleRecord& record);
  Result<void> attestation(const BundleRecord& record);
  Result<void> blob(const BundleRecord& record);
  Result<void> place_blob(const std::string& digest);
  Result<void> end(const BundleRecord& record);
  Result<void> dispatch(const BundleRecord& record);
  Result<void> move_to(Place place);

  // bundle_entries.cpp: what entries show
  void promotion_entry(const schema::Entry& entry, const std::string& bytes, const std::vector<Hash>& proof);
  void range_entry(const schema::Entry& entry, const std::string& bytes);
  void follow_in_range(const schema::Entry& entry);
  void take_contract(const std::string& digest);

  // bundle_trust.cpp: keys, heads, attestations
  void check_head(const std::string& note);
  /// The checkpoint of a note that a trusted key signed; nothing, with a finding, otherwise.
  std::optional<Checkpoint> open_head(const std::string& note, const std::string& what);
  void check_older_head();
  void check_signature(const Envelope& envelope);

  // verify_bundle.cpp: the whole
  void check_range();
  void check_promotion();
  void check_ended();
  void check_attestations();
  void check_retired_keys();
  void reevaluate();
  [[nodiscard]] PromotionDerivation::OnFault on_fault();
  [[nodiscard]] bool of_promotion() const { return !promotion_.empty(); }

  const VerifyOptions& options_;
  BundleReport report_;
  std::array<bool, 6> seen_{};
  Place place_ = Place::start;
  schema::Sha256 digest_;
  Checkpoint head_{};
  std::string promotion_;
  std::int64_t from_us_ = 0, to_us_ = 0;

  struct Older {
    std::uint64_t size = 0;
    Hash root{};
  };
  std::optional<Older> older_;

  bool has_range_ = false, gap_ = false;
  std::uint64_t first_ = 0, end_ = 0, at_ = 0;
  SubtreeStack tree_;
  std::vector<Hash> right_;
  std::optional<std::int64_t> first_us_, last_us_;
  std::map<std::string, std::unique_ptr<PromotionDerivation>> open_;

  std::unique_ptr<PromotionDerivation> derivation_;
  std::optional<std::int64_t> last_seq_;
  std::int64_t newest_us_ = 0;

  std::vector<TrustedKey> signers_;  ///< keys whose signatures were good
  std::vector<std::string> payloads_;
  std::map<std::string, std::string> blobs_;
  std::string last_blob_;  ///< digest of the last blob behind the attestations
};

}  // namespace driftgate::evidence
