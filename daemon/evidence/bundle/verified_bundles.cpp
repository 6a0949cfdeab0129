#include "daemon/evidence/bundle/verified_bundles.hpp"

#include <algorithm>

#include "daemon/base/base64.hpp"
#include "daemon/evidence/bundle/bundle_verifier.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

using schema::ErrorCode;

namespace {

/// The key of "name+hex(key id)+base64(0x01 ‖ key)" (verifier_key_text).
Result<TrustedKey> head_key(std::string_view text) {
  const auto name_end = text.find('+');
  const auto id_end = name_end == text.npos ? text.npos : text.find('+', name_end + 1);
  auto bytes = id_end == text.npos ? Result<std::string>("") : base::from_base64(text.substr(id_end + 1));
  TrustedKey key{.use = KeyUse::head, .name = std::string(text.substr(0, name_end))};
  if (!bytes || bytes->size() != key.key.size() + 1) {
    return schema::fail(ErrorCode::internal, "the log's verifier key cannot be read");
  }
  std::copy(bytes->begin() + 1, bytes->end(), reinterpret_cast<char*>(key.key.data()));
  return key;
}

/// Gives the verifier the lines of a piece.
bool take_lines(BundleVerifier& verifier, std::string_view piece) {
  while (!piece.empty()) {
    const auto end = piece.find('\n');
    if (!verifier.take(std::string(piece.substr(0, end)))) return false;
    piece.remove_prefix(end == piece.npos ? piece.size() : end + 1);
  }
  return true;
}

/// Counts one more while it lives.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count), before_(count.fetch_add(1)) {}
  ~Counted() { count_.fetch_sub(1); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  [[nodiscard]] int before() const { return before_; }

 private:
  std::atomic<int>& count_;
  int before_;
};

}  // namespace

VerifiedBundles::VerifiedBundles(store::Store& store, HeadPublisher& heads, const AttestationSigner& signer,
                                 LogError log_error)
    : store_(store), heads_(heads), signer_(signer), log_error_(std::move(log_error)) {}

Result<void> VerifiedBundles::find(const BundleRequest& request) const {
  TRY(BundleExport::open(store_, heads_, signer_, request));
  return {};
}

Result<std::unique_ptr<BundleExport>> VerifiedBundles::open(const BundleRequest& request) {
  const Counted counted(verifying_);
  if (counted.before() >= kMaxVerifying) {
    return schema::failf(ErrorCode::unavailable,
                         "{} bundles are being verified before they are sent: try again later",
                         kMaxVerifying);
  }
  auto bundle = TRY(BundleExport::open(store_, heads_, signer_, request));
  const auto verified = verify(*bundle, request.stop);
  if (!verified) {
    if (!request.stop.stop_requested()) log_error_(verified.error().describe());
    return std::unexpected(verified.error());
  }
  return bundle->again();
}

Result<void> VerifiedBundles::verify(BundleExport& bundle, const std::stop_token& stop) const {
  auto head = TRY(head_key(heads_.verifier_key()));
  VerifyOptions options;
  options.running = true;
  options.trust.keys = {std::move(head),
                        {.use = KeyUse::attestation, .name = signer_.name(), .key = signer_.public_key()}};
  BundleVerifier verifier(options);
  for (bool more = true; more;) {
    if (stop.stop_requested())
      return schema::fail(ErrorCode::unavailable, "nobody waits for this bundle any more: it was stopped");
    auto piece = TRY(bundle.next());
    more = !piece.empty() && take_lines(verifier, piece);
  }
  const BundleReport report = verifier.finish();
  if (report.result == BundleResult::ok) return {};
  return schema::failf(ErrorCode::corrupt,
                       "the bundle of {} is {} ({} findings, the first: {}) and is not handed out: check the "
                       "log with 'driftgate audit verify --data-dir'",
                       report.subject, to_string(report.result), report.findings.size(),
                       report.findings.empty() ? "" : report.findings.front().message);
}

}  // namespace driftgate::evidence
